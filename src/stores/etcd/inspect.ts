import { grantedCount } from '../../store/grant-rule.ts';
import type { StoredClaim } from '../../store/store.ts';
import type { Calls } from './calls.ts';
import type { Keys, LockKeys } from './key.ts';
import type { Queues } from './queues.ts';

/** How many leases are asked for their remaining time. Claims on further leases show none. */
const LEASES_MAX = 16;

/** All claims of a lock. `heldForMs` knows only those of this store: etcd stores no times. */
export async function readClaims(
  queues: Queues,
  calls: Calls,
  lock: LockKeys,
  heldForMs: (id: string) => number | null,
): Promise<StoredClaim[]> {
  const queue = await queues.whole(lock, false);
  const granted = grantedCount(queue.map(({ mode }) => mode));
  const leases = [...new Set(queue.map(({ lease }) => lease))];
  const times = new Map<string, number | null>();
  await Promise.all(
    leases.slice(0, LEASES_MAX).map(async (lease) => {
      // A lease that has just ended must not fail the whole read.
      times.set(lease, await calls.timeToLive(lease).catch(() => null));
    }),
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

/** Names of locks with at least one key, in the order of the keys. */
export async function* listNames(calls: Calls, keys: Keys, prefix: string): AsyncIterable<string> {
  const { from, end } = keys.all(prefix);
  let last: string | null = null;
  for await (const { key } of calls.keys(from, end, true)) {
    const name = keys.nameIn(key);
    if (name === null || name === last || !name.startsWith(prefix)) continue;
    last = name;
    yield name;
  }
}
