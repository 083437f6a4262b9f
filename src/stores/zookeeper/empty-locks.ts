import type { Claim } from './claim.ts';
import type { Watcher } from './client.ts';

/** How many locks with an earlier use are remembered. */
const USED_MAX = 10_000;
/** How many lock nodes one connection watches: the client library cannot end a watch. */
const WATCHED_MAX = 10_000;

/** A watched lock node. While it is intact, ZooKeeper goes on counting its queue positions. */
export class LockNode {
  isIntact = true;
  /** All claims up to this queue position are gone. `null`: unknown. */
  emptyTo: number | null = null;
  /** The last claim of this store got the expected queue position: no other claim came in between. */
  isOurs = true;
  readonly broken: Watcher = () => {
    this.isIntact = false;
  };
}

/** A queue that was empty when this process last used it. */
export interface EmptyLock {
  readonly node: LockNode;
  /** The queue position that a claim gets if it is the next to enter. */
  readonly position: number;
  /** Other claims are unlikely, so the queue is not counted along with the claim. */
  readonly isLikely: boolean;
}

/**
 * Locks whose queue was empty when a claim of this store left it. ZooKeeper numbers queue positions
 * without gaps, so a claim that gets the very next position is alone, and needs no second request.
 * That conclusion is wrong if the lock node was removed and created again, because its numbers then
 * start again. So the lock node is watched: ZooKeeper sends the event of its removal before the
 * reply to any later request. `bench/zookeeper` isolates the gain.
 */
export class EmptyLocks {
  readonly #used = new Set<string>();
  readonly #nodes = new Map<string, LockNode>();
  /**
   * Every lock node whose watch was asked for on this connection, also those that were not worth adding.
   * They are asked for again with the same function, which the client keeps only once.
   */
  readonly #watched = new Map<string, LockNode>();

  /** The front of an empty queue; `null` if the queue may have claims. Only one claim gets it. */
  take(lock: string): EmptyLock | null {
    const node = this.nodeOf(lock);
    if (node === null || node.emptyTo === null) return null;
    const position = (node.emptyTo + 1) | 0;
    node.emptyTo = null;
    return { node, position, isLikely: node.isOurs };
  }

  /** Whether the claim that took `empty` and got this queue position is alone. */
  isAlone({ node, position }: EmptyLock, got: number): boolean {
    node.isOurs = got === position;
    return node.isOurs && node.isIntact;
  }

  nodeOf(lock: string): LockNode | null {
    const node = this.#nodes.get(lock);
    if (node?.isIntact === true) return node;
    this.#nodes.delete(lock);
    return null;
  }

  /** For a lock node that is about to be watched; `null` when it is not worth watching. */
  toWatch(lock: string): LockNode | null {
    if (!this.#used.has(lock) || this.nodeOf(lock) !== null) return null;
    const watched = this.#watched.get(lock);
    if (watched?.isIntact === true) return watched;
    if (watched === undefined && this.#watched.size >= WATCHED_MAX) return null;
    const node = new LockNode();
    this.#watched.set(lock, node);
    return node;
  }

  /** The lock node is watched from now on. */
  add(lock: string, node: LockNode): void {
    if (node.isIntact) this.#nodes.set(lock, node);
  }

  /** A claim has left its queue. */
  left({ lock, lockNode, isFirst, position }: Claim): void {
    if (isFirst && lockNode?.isIntact === true) lockNode.emptyTo = position;
    if (this.#used.has(lock)) return;
    this.#used.add(lock);
    const [oldest] = this.#used;
    if (this.#used.size > USED_MAX && oldest !== undefined) this.#used.delete(oldest);
  }

  /** The connection is over, and every watch with it. Returns the lock nodes that were watched. */
  reset(): readonly (readonly [string, LockNode])[] {
    const nodes = [...this.#watched];
    for (const [, node] of nodes) node.isIntact = false;
    this.#nodes.clear();
    this.#watched.clear();
    return nodes;
  }
}
