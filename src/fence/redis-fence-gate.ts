import { createHash } from 'node:crypto';
import { checkKeys } from '../checks.ts';
import { InvalidArgumentError, StaleFenceError } from '../errors.ts';
import { connectionOf, type RedisClient } from '../stores/redis/client.ts';
import type { RedisConnection } from '../stores/redis/connection.ts';
import { isNoScript } from '../stores/redis/failure.ts';
import { checkFence } from './fence-gate.ts';

/** A write behind a gate: one `SET`, or a script of the caller with its keys and arguments. */
export type FencedWrite =
  | { readonly set: readonly [key: string, value: string] }
  | { readonly script: string; readonly keys?: readonly string[]; readonly args?: readonly string[] };

/** The resource's side of fencing where the resource is data in Redis. */
export interface RedisFenceGate {
  /**
   * Checks the fence and reads a key, in one step. Read what a write depends on this way: from then on
   * the gate refuses an earlier holder, whose late write would otherwise change what was read. Resolves
   * to `null` when the key does not exist. Rejects with `StaleFenceError` like `write`.
   */
  read(resource: string, fence: bigint, key: string): Promise<string | null>;
  /**
   * Checks the fence and writes, in one step. Resolves to what `SET` or the script gives. Rejects
   * with `StaleFenceError`, and writes nothing, when a greater fence was seen for this resource.
   * The same fence is accepted again. Errors of Redis pass through unchanged.
   *
   * There is no `check()`: a holder may be paused between a check and a write that are two steps.
   */
  write(resource: string, fence: bigint, write: FencedWrite): Promise<unknown>;
}

/** Options of a Redis gate. Programs that write to the same resources must use the same. */
export interface RedisFenceGateOptions {
  /** The prefix of the key that has a resource's greatest fence. Default `holdfast:`. */
  readonly prefix?: string | undefined;
}

/**
 * Compares decimal text: the longer one is greater, else the text decides. A Lua number would lose
 * the last digits of a large fence.
 */
const CHECK = `local latest, fence = redis.call('GET', KEYS[1]), ARGV[1]
if latest and (#latest > #fence or (#latest == #fence and latest > fence)) then return { 'stale', latest } end
redis.call('SET', KEYS[1], fence)
`;
const SET = `return { 'done', redis.call('SET', KEYS[2], ARGV[2]) }`;
const GET = `return { 'done', redis.call('GET', KEYS[2]) }`;

/** The caller's script sees only its own keys and arguments. */
const own = (script: string): string => `local function write(KEYS, ARGV)
${script}
end
return { 'done', write({ unpack(KEYS, 2) }, { unpack(ARGV, 2) }) }`;

/**
 * A fence gate for data in Redis. It keeps one small key for each resource for ever, because the key
 * must outlive every earlier holder. On a Cluster, give the resource and the keys one hash tag.
 *
 * @param client a client of ioredis or of node-redis; it stays the caller's.
 */
export function redisFenceGate(client: RedisClient, options: RedisFenceGateOptions = {}): RedisFenceGate {
  const connection = sharedConnectionOf(client);
  const prefix = `${checkKeys(options, ['prefix']).prefix ?? 'holdfast:'}\u0001gate:`;
  const pass = async (resource: string, fence: bigint, { script, keys, args }: Parts): Promise<unknown> => {
    checkFence(resource, fence);
    const text = CHECK + script;
    const rest = [`${keys.length + 1}`, prefix + resource, ...keys, `${fence}`, ...args];
    const sha = createHash('sha1').update(text).digest('hex');
    const reply = await connection.send('evalsha', [sha, ...rest]).catch((error: unknown) => {
      if (!isNoScript(error)) throw error;
      return connection.send('eval', [text, ...rest]);
    });
    const [outcome, value = null] = reply as [string, unknown];
    if (outcome === 'stale') throw new StaleFenceError(resource, fence, BigInt(String(value)));
    return value;
  };
  return {
    read: async (resource, fence, key) => {
      const value = await pass(resource, fence, { script: GET, keys: [key], args: [] });
      return value === null ? null : String(value);
    },
    write: async (resource, fence, write) => await pass(resource, fence, partsOf(write)),
  };
}

/** A gate has no end, so the listeners of a connection on its client stay for ever. */
const connections = new WeakMap<object, RedisConnection>();

function sharedConnectionOf(client: RedisClient): RedisConnection {
  const connection = connections.get(client) ?? connectionOf(client);
  connections.set(client, connection);
  return connection;
}

interface Parts {
  readonly script: string;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

function partsOf(write: FencedWrite): Parts {
  if (write !== null && typeof write === 'object') {
    checkKeys(write, 'set' in write ? ['set'] : ['script', 'keys', 'args'], 'write');
    if ('set' in write) return { script: SET, keys: [write.set[0]], args: [write.set[1]] };
    if (typeof write.script === 'string')
      return { script: own(write.script), keys: write.keys ?? [], args: write.args ?? [] };
  }
  throw new InvalidArgumentError('write', 'must be { set: [key, value] } or { script, keys, args }');
}
