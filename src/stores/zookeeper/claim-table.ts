import { AheadWatch, type QueueWatches } from '../shared/ahead-watch.ts';
import { ClaimMap } from '../shared/claim-map.ts';
import type { Claim } from './claim.ts';
import type { NodeName } from './node-name.ts';

/**
 * A waiting claim watches the one node ahead, or the children of the lock node. A watch on a node
 * that is gone fires at once, so nothing is missed. A waiter that was evicted finds that out when
 * it asks again.
 */
const queueWatches = (table: ClaimTable): QueueWatches<Claim> => ({
  own: () => null,
  ahead: (claim, behind, _since, fire) =>
    claim.session.watches.node(`${claim.lock}/${behind}`, (isGone) => {
      claim.isAheadGone ||= isGone;
      if (isGone) fire();
      else table.wakeWaiters(claim.lock);
    }),
  queue: ({ session, lock }, _since, fire) => {
    const watching = session.watches.children(lock, () => fire());
    // A change since the refusal is not reported, so the claim asks once more.
    watching.armed.then(fire, () => {});
    return watching;
  },
  queueOf: ({ lock }) => lock,
  isAhead: (a, b) => ((a.position - b.position) | 0) < 0,
});

/** The claims of this store that are or may be in a queue, and the watches of those that wait. */
export class ClaimTable extends ClaimMap<Claim> {
  readonly watch = new AheadWatch<Claim>(queueWatches(this));

  /** The claim of this node, if it is one of this store. */
  atNode(name: string, { id, node }: NodeName): Claim | null {
    const claim = this.get({ name, id });
    return claim?.node === node ? claim : null;
  }

  remove(claim: Claim): void {
    if (!this.delete(claim)) return;
    // The claim behind may refer to this one. Without this line it would keep a whole chain of
    // removed claims in memory.
    claim.claimAhead = null;
    this.watch.end(claim);
  }

  /**
   * A note has changed. Only a claim right behind that hold sees the event, so it wakes the others
   * of this process. Waiters of other processes further back find out when they ask again.
   */
  wakeWaiters(lock: string): void {
    for (const claim of this) if (claim.lock === lock && !claim.isGranted) claim.waiter?.wake();
  }
}
