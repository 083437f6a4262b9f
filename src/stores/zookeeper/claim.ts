import type { ClaimRef, Mode, Waiter } from '../../store/store.ts';
import { claimKey } from '../shared/claim-map.ts';
import type { LockNode } from './empty-locks.ts';
import type { Session } from './session.ts';

/** What this process knows of one of its claims. */
export class Claim implements ClaimRef {
  readonly name: string;
  readonly id: string;
  readonly key: string;
  mode: Mode;
  /** The path of the lock node. */
  readonly lock: string;
  session: Session;
  /** Woken when the claim should ask again or, once it is held, renew. */
  waiter: Waiter | null = null;
  /** The name of its node below the lock node; `null` until the node is known to exist. */
  node: string | null = null;
  /** Its queue position, and the table's key for that position while the claim waits. */
  position = 0;
  positionKey: string | null = null;
  /** The transaction that created its node. */
  fence: bigint | null = null;
  /** The greatest fence that had been seen when it entered the queue. */
  fenceAbove = 0n;
  isGranted = false;
  /** When this store learned that the claim is granted, by the monotonic clock. */
  grantedAtMs = 0;
  /** It was granted with nothing ahead of it, and nothing can come ahead of it later. */
  isFirst = false;
  /** The lock node that gave it its queue position, if that lock node is watched. */
  lockNode: LockNode | null = null;
  /** The node that has to go first; `null` when any of several can make room. */
  behind: string | null = null;
  /** The claim of that node, if it is one of this process and right ahead in the queue. */
  claimAhead: Claim | null = null;
  /** The watch on that node has fired. */
  isAheadGone = false;
  /** It was given up, and the server has not confirmed its removal yet. */
  isLeaving = false;
  /** The pending removal. Resolves to whether that removed the node. */
  removal: Promise<boolean> | null = null;

  constructor(ref: ClaimRef, mode: Mode, lock: string, session: Session) {
    this.name = ref.name;
    this.id = ref.id;
    this.key = claimKey(ref);
    this.mode = mode;
    this.lock = lock;
    this.session = session;
  }

  get path(): string {
    return `${this.lock}/${this.node ?? ''}`;
  }

  /** Its node is gone, with an earlier session or by an eviction. It enters the queue again. */
  restartIn(session: Session): void {
    this.session = session;
    this.node = null;
    this.fence = null;
    this.isGranted = false;
    this.isFirst = false;
    this.lockNode = null;
    this.behind = null;
    this.claimAhead = null;
    this.isAheadGone = false;
  }
}
