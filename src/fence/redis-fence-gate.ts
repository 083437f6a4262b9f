import { createHash } from 'node:crypto';
import { InvalidArgumentError, StaleFenceError } from '../errors.ts';
import { linkOf, type RedisClient } from '../stores/redis/client.ts';
import { isNoScript } from '../stores/redis/failure.ts';
import { checkFence } from './fence-gate.ts';

/** A write that a gate lets through or not: one `SET`, or a script of the caller's own with its keys and arguments. */
export type FencedWrite =
  | { readonly set: readonly [key: string, value: string] }
  | { readonly script: string; readonly keys?: readonly string[]; readonly args?: readonly string[] };

/** The resource's side of fencing where the resource is data in Redis. */
export interface RedisFenceGate {
  /**
   * Checks the fence and writes, in one step. Resolves to what `SET` or the script gives. Rejects with `StaleFenceError`, and writes nothing, when a greater fence
   * was seen for this resource. The same fence is accepted again. What Redis itself says passes through unchanged.
   *
   * There is no `check()`: a holder may be paused between a check and a write that are two steps.
   */
  write(resource: string, fence: bigint, write: FencedWrite): Promise<unknown>;
}

/** What of a gate in Redis can be set. Programs that write to the same resources must agree on it. */
export interface RedisFenceGateOptions {
  /** Put before the key that remembers a resource's greatest fence. Default `holdfast:`. */
  readonly prefix?: string | undefined;
}

/** Decimal text of any length: longer is greater, else the text decides. A number would lose the last digits of a large fence. */
const CHECK = `local latest, fence = redis.call('GET', KEYS[1]), ARGV[1]
if latest and (#latest > #fence or (#latest == #fence and latest > fence)) then return { 'stale', latest } end
redis.call('SET', KEYS[1], fence)
`;
const SET = `return { 'done', redis.call('SET', KEYS[2], ARGV[2]) }`;

/** The caller's script sees only its own keys and arguments. */
const own = (script: string): string => `local function write(KEYS, ARGV)
${script}
end
return { 'done', write({ unpack(KEYS, 2) }, { unpack(ARGV, 2) }) }`;

/**
 * A gate for data in Redis. Keeps one small key for each resource, for ever: it must outlive every holder of the past. On a Cluster, give resource and keys
 * one hash tag.
 *
 * @param client a client of ioredis or of node-redis; it stays the caller's.
 */
export function redisFenceGate(client: RedisClient, options: RedisFenceGateOptions = {}): RedisFenceGate {
  const link = linkOf(client);
  const prefix = `${options.prefix ?? 'holdfast:'}\u0001gate:`;
  return {
    async write(resource, fence, write) {
      checkFence(resource, fence);
      const { script, keys, args } = partsOf(write);
      const text = CHECK + script;
      const rest = [`${keys.length + 1}`, prefix + resource, ...keys, `${fence}`, ...args];
      const sha = createHash('sha1').update(text).digest('hex');
      const reply = await link.send('evalsha', [sha, ...rest]).catch((error: unknown) => {
        if (!isNoScript(error)) throw error;
        return link.send('eval', [text, ...rest]);
      });
      const [outcome, value = null] = reply as [string, unknown];
      if (outcome === 'stale') throw new StaleFenceError(resource, fence, BigInt(String(value)));
      return value;
    },
  };
}

function partsOf(write: FencedWrite): { script: string; keys: readonly string[]; args: readonly string[] } {
  if (write !== null && typeof write === 'object') {
    if ('set' in write) return { script: SET, keys: [write.set[0]], args: [write.set[1]] };
    if (typeof write.script === 'string')
      return { script: own(write.script), keys: write.keys ?? [], args: write.args ?? [] };
  }
  throw new InvalidArgumentError('write', 'must be { set: [key, value] } or { script, keys, args }');
}
