import type { RedisConnection } from '../connection.ts';
import { failureOf, noConnection } from '../failure.ts';
import { locksAmong, scanKeys } from '../inspect.ts';
import { Keys } from '../keys.ts';
import type { ReadinessCheck } from '../readiness-check.ts';
import type { ClusterConnection } from './cluster-connection.ts';
import { slotOf, tagOf } from './slots.ts';

/** As `listNames`, from every master. Locks whose slot moves meanwhile may be missed. */
export async function* listCluster(
  readiness: ReadinessCheck,
  connection: ClusterConnection,
  prefix: string,
  namePrefix: string,
  signal?: AbortSignal,
): AsyncIterable<string> {
  await readiness.untilReady(signal);
  const masters = await connection.servers();
  if (masters.length === 0) throw failureOf(noConnection(connection));
  const keys = new Keys(prefix);
  const [plain, queue] = keys.patterns('', namePrefix);
  // The tag of a slot comes before the key of a queue.
  const patterns = [plain, `{*}${queue}`];
  const scans = masters.map((node) => keysAt(node, patterns, signal));
  const found = await Promise.all(scans).catch((error: unknown) => {
    throw failureOf(error);
  });
  const slots = new Map<number, Set<string>>();
  for (const key of found.flat()) {
    const name = keys.nameIn(key) ?? keys.nameIn(key.replace(/^\{[^}]*\}/, ''));
    if (name === null) continue;
    const slot = slotOf(prefix + name);
    slots.set(slot, (slots.get(slot) ?? new Set()).add(name));
  }
  for (const [slot, names] of slots)
    yield* await locksAmong(readiness, new Keys(prefix, tagOf(slot)), [...names], signal);
}

async function keysAt(
  node: RedisConnection,
  patterns: readonly string[],
  signal?: AbortSignal,
): Promise<string[]> {
  const send = (name: string, args: string[]): Promise<unknown> => {
    signal?.throwIfAborted();
    return node.send(name, args);
  };
  const keys: string[] = [];
  for await (const page of scanKeys(send, patterns)) keys.push(...page);
  return keys;
}
