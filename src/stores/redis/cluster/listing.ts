import { listScript } from '../../../generated/redis-scripts.ts';
import { runAlone, sendAlone } from '../call.ts';
import { failureOf } from '../failure.ts';
import type { Gate } from '../gate.ts';
import { Keys } from '../keys.ts';
import type { Link } from '../link.ts';
import type { ClusterLink } from './cluster-link.ts';
import { slotOf, tagOf } from './slots.ts';

const PAGE = 500;

/** Names of the locks that begin so, each once, from every master. What moves from one to another meanwhile may be missed. */
export async function* listCluster(
  gate: Gate,
  link: ClusterLink,
  prefix: string,
  namePrefix: string,
  signal?: AbortSignal,
): AsyncIterable<string> {
  // Opens the gate, or says why it stays shut.
  await sendAlone(gate, 'ping', [], signal);
  const seen = new Set<string>();
  const patterns = Keys.clusterPatterns(prefix, namePrefix);
  const scans = (await link.servers()).map((node) => keysAt(node, patterns, signal));
  const found = await Promise.all(scans).catch((error: unknown) => {
    throw failureOf(error);
  });
  for (const key of found.flat()) {
    const name = Keys.clusterNameIn(prefix, key);
    if (name !== null) seen.add(name);
  }
  for (const [slot, names] of bySlot(prefix, seen)) {
    const keys = new Keys(prefix, tagOf(slot));
    const all = names.flatMap((name) => [keys.of(name).plain, keys.line(name)]);
    const reply = await runAlone(gate, listScript, all, [prefix === '' ? '0' : '1'], signal);
    yield* names.filter((_, index) => Number((reply as unknown[])[index]) === 1);
  }
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

async function keysAt(node: Link, patterns: readonly string[], signal?: AbortSignal): Promise<string[]> {
  const keys: string[] = [];
  for (const pattern of patterns) {
    let cursor = '0';
    do {
      signal?.throwIfAborted();
      const page = await node.send('scan', [cursor, 'MATCH', pattern, 'COUNT', `${PAGE}`]);
      const [next, found] = page as [string, string[]];
      cursor = String(next);
      keys.push(...found);
    } while (cursor !== '0');
  }
  return keys;
}
