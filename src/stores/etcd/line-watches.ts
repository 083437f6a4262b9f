import type { LineWatches, Watching } from '../waiters.ts';
import type { Claim } from './claim.ts';
import type { WatchHub } from './watch-hub.ts';

/** What the waiters of etcd watch: keys that are deleted. */
export function lineWatches(hub: WatchHub): LineWatches<Claim, Buffer> {
  const deleted = (key: Buffer, from: bigint, fire: () => void): Watching =>
    hub.add({ key, from, puts: false }, fire);
  return {
    isSame: (a, b) => a.equals(b),
    watchOwn: (claim, fire) => deleted(claim.key, (claim.revision ?? 0n) + 1n, fire),
    // From that revision on and not after it: a transaction may read and delete a key at one revision.
    watchSpot: (key, since, fire) => deleted(key, since, fire),
    watchLine: ({ lock }, since, fire) =>
      hub.add({ key: lock.from, range_end: lock.end, from: since, puts: false }, fire),
    lineOf: ({ lock }) => lock.from.toString('latin1'),
    isAhead: (a, b) => (a.revision ?? 0n) < (b.revision ?? 0n),
  };
}
