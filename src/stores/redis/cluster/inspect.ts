import { sendAlone } from '../call.ts';
import type { RedisConnection } from '../connection.ts';
import { failureOf } from '../failure.ts';
import { locksAmong, scanKeys } from '../inspect.ts';
import { Keys } from '../keys.ts';
import type { ReadinessCheck } from '../readiness-check.ts';
import type { ClusterConnection } from './cluster-connection.ts';
import { slotOf, tagOf } from './slots.ts';

/**
 * The names of the locks that begin with `namePrefix`, each once, from every master. Locks whose
 * slot moves meanwhile may be missed.
 */
export async function* listCluster(
  readiness: ReadinessCheck,
  connection: ClusterConnection,
  prefix: string,
  namePrefix: string,
  signal?: AbortSignal,
): AsyncIterable<string> {
  // Rejects with the reason when the Cluster cannot be used.
  await sendAlone(readiness, 'ping', [], signal);
  const patterns = Keys.clusterPatterns(prefix, namePrefix);
  const scans = (await connection.servers()).map((node) => keysAt(node, patterns, signal));
  const found = await Promise.all(scans).catch((error: unknown) => {
    throw failureOf(error);
  });
  const names = new Set<string>();
  for (const key of found.flat()) {
    const name = Keys.clusterNameIn(prefix, key);
    if (name !== null) names.add(name);
  }
  for (const [slot, inSlot] of bySlot(prefix, names))
    yield* await locksAmong(readiness, new Keys(prefix, tagOf(slot)), inSlot, signal);
}

function bySlot(prefix: string, names: Iterable<string>): Map<number, string[]> {
  const slots = new Map<number, string[]>();
  for (const name of names) {
    const slot = slotOf(prefix + name);
    const same = slots.get(slot);
    if (same === undefined) slots.set(slot, [name]);
    else same.push(name);
  }
  return slots;
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
