import { grantedCount } from '../../store/grant-rule.ts';
import type { StoredClaim } from '../../store/store.ts';
import type { Calls } from './calls.ts';
import type { Keys, LockKeys } from './key.ts';
import type { Queues } from './queues.ts';
import type { Transactions } from './transactions.ts';

/** How many leases are asked for their remaining time. Claims on further leases show none. */
const LEASES_MAX = 16;

/**
 * All claims of a lock. etcd stores no times, so that only the store that made a claim knows how long it
 * is held: `heldForMs`.
 */
export async function readClaims(
  queues: Queues,
  calls: Calls,
  lock: LockKeys,
  heldForMs: (id: string) => number | null,
): Promise<StoredClaim[]> {
  const queue = await queues.whole(lock, false);
  const granted = grantedCount(queue.map(({ mode }) => mode));
  const times = await timesLeft(
    calls,
    queue.map(({ lease }) => lease),
  );
  return queue.map(({ id, mode, revision, lease, note }, position) => ({
    id,
    granted: position < granted,
    mode,
    fence: position < granted ? revision : null,
    heldForMs: position < granted ? heldForMs(id) : null,
    expiresInMs: times.get(lease) ?? null,
    note,
  }));
}

async function timesLeft(calls: Calls, leases: readonly string[]): Promise<Map<string, number>> {
  const times = new Map<string, number>();
  const distinct = [...new Set(leases)].filter((lease) => lease !== '0').slice(0, LEASES_MAX);
  await Promise.all(
    distinct.map(async (lease) => {
      // A lease that has just ended must not fail the whole read.
      const leftMs = await calls.timeToLive(lease).catch(() => null);
      if (leftMs !== null) times.set(lease, leftMs);
    }),
  );
  return times;
}

/** Names of locks with at least one key, in the order of the keys. */
export async function* listNames(
  transactions: Transactions,
  keys: Keys,
  prefix: string,
): AsyncGenerator<string, void, undefined> {
  const { from, end } = keys.all(prefix);
  let last: string | null = null;
  for await (const { key } of transactions.keys(from, end, true)) {
    const name = keys.nameIn(key);
    if (name === null || name === last || !name.startsWith(prefix)) continue;
    last = name;
    yield name;
  }
}
