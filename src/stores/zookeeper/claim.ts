import type { ClaimRef, ClaimRequest, Mode, Waiter } from '../../store/store.ts';
import { AheadWatch } from '../shared/ahead-watch.ts';
import { ClaimMap } from '../shared/claim-map.ts';
import type { NodeName } from './node-name.ts';
import type { Session } from './session.ts';

/** What this process knows of one of its claims. */
export class Claim implements ClaimRef {
  readonly name: string;
  readonly id: string;
  mode: Mode;
  /** The path of the lock node. */
  readonly lock: string;
  session: Session;
  /** Woken when the claim should ask again or, once it is held, renew. */
  waiter: Waiter | null = null;
  /** The name of its node below the lock node; `null` until the node is known to exist. */
  node: string | null = null;
  position = 0;
  /** The transaction that created its node. */
  fence: bigint | null = null;
  /** The greatest fence that had been seen when it entered the queue. */
  fenceAbove = 0n;
  /** Its mode and the bound of the queue were checked. */
  isChecked = false;
  /** When this store learned that the claim is granted, by the monotonic clock; `null`: it waits. */
  grantedAtMs: number | null = null;
  /** The node that has to go first; `null` when any of several can make room. */
  behind: NodeName | null = null;
  /** The claim of that node, if it is one of this store. */
  claimAhead: Claim | null = null;
  /** The watch on that node has ended, so the node is probably gone. */
  isAheadGone = false;
  /** It was given up, and the server has not confirmed its removal yet. */
  isLeaving = false;
  /** This store has removed its node. */
  isRemoved = false;

  constructor({ name, id, mode }: ClaimRequest, lock: string, session: Session) {
    this.name = name;
    this.id = id;
    this.mode = mode;
    this.lock = lock;
    this.session = session;
  }

  get path(): string {
    return `${this.lock}/${this.node ?? ''}`;
  }

  get isGranted(): boolean {
    return this.grantedAtMs !== null;
  }

  /** Its node is gone, with an earlier session or by an eviction. It enters the queue again. */
  restartIn(session: Session): void {
    this.session = session;
    this.node = null;
    this.fence = null;
    this.isChecked = false;
    this.grantedAtMs = null;
    this.behind = null;
    this.claimAhead = null;
    this.isAheadGone = false;
  }

  // The list of ten thousand claims takes a megabyte, and reading it once for each claim takes
  // minutes. `bench/zookeeper/shortcuts.ts` isolates the gain of these two methods.

  /** For a claim that asks again: whether the node ahead still exists, by a read of one member. */
  async isStillBehind(): Promise<boolean> {
    if (this.behind === null || this.isAheadGone) return false;
    const { calls } = this.session;
    const found = await Promise.all([
      calls.exists(this.path),
      calls.exists(`${this.lock}/${this.behind.node}`),
    ]);
    return found.every((created) => created !== null);
  }

  /**
   * For a claim that was woken: whether it is granted, because the claim ahead was one of this
   * store, held exclusively, and is gone. So nothing was ahead of that claim, and nothing can have
   * come ahead since. The leader and a majority confirm the claim's own node. One member is enough
   * to show that the other node is gone, because no node comes back.
   */
  async isNext(): Promise<boolean> {
    const { behind, claimAhead: ahead, lock, session } = this;
    if (behind === null || ahead?.node !== behind.node) return false;
    if (!ahead.isGranted || ahead.mode.kind !== 'exclusive') return false;
    const [isThere, aheadCreated] = await Promise.all([
      session.transactions.check(this.path),
      session.calls.exists(`${lock}/${behind.node}`),
    ]);
    return isThere && aheadCreated === null;
  }
}

/** The claims of this store that are or may be in a queue, and the watches of those that wait. */
export class ClaimTable extends ClaimMap<Claim> {
  /**
   * A waiting claim watches the one node ahead, or the children of the lock node. A watch on a node
   * that is gone fires at once, so nothing is missed. A waiter that was evicted finds that out when
   * it asks again.
   */
  readonly watch = new AheadWatch<Claim>({
    own: () => null,
    ahead: (claim, behind, _since, fire) =>
      claim.session.watches.add('node', `${claim.lock}/${behind}`, (isGone) => {
        claim.isAheadGone ||= isGone;
        if (isGone) fire();
        else this.#wakeWaiters(claim.lock);
      }),
    queue: ({ session, lock }, _since, fire) => {
      const watching = session.watches.add('children', lock, fire);
      // A change since the refusal is not reported, so the claim asks once more.
      watching.armed.then(fire, () => {});
      return watching;
    },
    queueOf: ({ lock }) => lock,
    isAhead: (a, b) => ((a.position - b.position) | 0) < 0,
  });

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
  #wakeWaiters(lock: string): void {
    for (const claim of this) if (claim.lock === lock && !claim.isGranted) claim.waiter?.wake();
  }
}
