import type { ClaimRequest } from '../../store/store.ts';
import type { Claim } from './claim.ts';
import type { ClaimTable } from './claim-table.ts';
import type { Count } from './transactions.ts';

/** Every claim that enters a queue of at most this length reads it: that is cheap and exact. */
const SHORT_QUEUE = 64;

/**
 * Ways to judge a claim in a long queue without reading the queue. The list of ten thousand claims
 * has a megabyte, and reading it once for each claim takes minutes. `bench/zookeeper/shortcuts.ts`
 * isolates the gain of each way.
 */
export class QueueShortcuts {
  readonly #table: ClaimTable;
  readonly #queueMax: number;

  constructor(table: ClaimTable, queueMax: number) {
    this.#table = table;
    this.#queueMax = queueMax;
  }

  /**
   * For a claim that enters a long queue right behind a claim of this store that waits or holds:
   * that claim, behind which the new one is refused. The refusal may be out of date; the watch
   * corrects it. `null`: the queue has to be read.
   */
  ownClaimAhead(claim: Claim, { wait, fenceAbove }: ClaimRequest, { count }: Count): Claim | null {
    if (!wait || count <= SHORT_QUEUE || count - 1 > this.#queueMax) return null;
    const ahead = this.#table.ahead(claim);
    if (ahead === null || ahead.isLeaving || !(ahead.isGranted || ahead.behind !== null)) return null;
    const [own, other] = [claim.mode.kind, ahead.mode.kind];
    if (own === 'permits' || other === 'permits' || (own === 'shared' && other === 'shared')) return null;
    return claim.fence === null || claim.fence <= fenceAbove ? null : ahead;
  }

  /** For a claim that asks again: whether the node ahead still exists, by a read of one member. */
  async isStillBehind(claim: Claim): Promise<boolean> {
    if (claim.behind === null || claim.isAheadGone) return false;
    const { calls } = claim.session;
    const found = await Promise.all([
      calls.exists(claim.path),
      calls.exists(`${claim.lock}/${claim.behind}`),
    ]);
    return found.every((created) => created !== null);
  }

  /**
   * For a claim that was woken: whether it is granted, because the claim ahead was one of this
   * store, held with nothing ahead of it, and is gone. Nothing can have come ahead since. The
   * leader and a majority confirm the claim's own node. One member is enough to show that the other
   * node is gone, because no node comes back.
   */
  async isNext(claim: Claim): Promise<boolean> {
    const { behind, claimAhead, fence, lock, session } = claim;
    if (fence === null || behind === null || claimAhead === null) return false;
    if (claimAhead.node !== behind || !claimAhead.isFirst || claimAhead.mode.kind !== 'exclusive')
      return false;
    const [own, ahead] = await Promise.all([
      session.transactions.check(claim.path, null),
      session.calls.exists(`${lock}/${behind}`),
    ]);
    return own.isThere && ahead === null;
  }
}
