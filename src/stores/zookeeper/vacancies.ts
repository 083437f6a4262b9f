import type { Claim } from './claim.ts';
import type { Watcher } from './client.ts';

/** How many locks that were used once are remembered. */
const USED_MAX = 10_000;
/** How many nodes of locks are watched over one connection: the client library has no request to end a watch. */
const WATCHED_MAX = 10_000;

/** The node of a lock that is watched: as long as this is intact, it is the node that it was, and its places have been counted on. */
export class LockNode {
  isIntact = true;
  /** All that stood in line up to this place is gone. `null`: not known. */
  emptyTo: number | null = null;
  /** Whether the last claim of ours got the place that was expected: nobody else was there in between. */
  isOurs = true;
  readonly broken: Watcher = () => {
    this.isIntact = false;
  };
}

/** A line that was empty when we last saw it. */
export interface Vacancy {
  readonly node: LockNode;
  readonly place: number;
  /** Whether it is likely that nobody else comes first, so that nothing else need be asked for. */
  readonly isLikely: boolean;
}

/**
 * Locks whose line was empty when a claim of ours left it. ZooKeeper counts the places of a line without gaps, and so a claim that gets the very next place is alone: nobody else has been in the line since. That needs no
 * second request to see. It would be wrong if the lock's node had been removed and made anew, which starts the count again; so the node is watched, and ZooKeeper tells of its end before it answers anything later.
 */
export class Vacancies {
  readonly #used = new Set<string>();
  readonly #nodes = new Map<string, LockNode>();
  #watched = 0;

  /** The place that is the front of the line, for whoever gets it. One claim at a time can count on it. */
  take(lock: string): Vacancy | null {
    const node = this.nodeOf(lock);
    if (node === null || node.emptyTo === null) return null;
    const place = (node.emptyTo + 1) | 0;
    node.emptyTo = null;
    return { node, place, isLikely: node.isOurs };
  }

  /** The claim that has taken a vacancy got this place. True: it is alone. */
  isAlone({ node, place }: Vacancy, got: number): boolean {
    node.isOurs = got === place;
    return node.isOurs && node.isIntact;
  }

  nodeOf(lock: string): LockNode | null {
    const node = this.#nodes.get(lock);
    if (node?.isIntact === true) return node;
    this.#nodes.delete(lock);
    return null;
  }

  /** To watch the lock's node with, when that is worth it: the lock is used again. */
  toWatch(lock: string): LockNode | null {
    if (!this.#used.has(lock) || this.#watched >= WATCHED_MAX || this.nodeOf(lock) !== null) return null;
    this.#watched += 1;
    return new LockNode();
  }

  /** It is watched from now on. */
  add(lock: string, node: LockNode): void {
    if (node.isIntact) this.#nodes.set(lock, node);
  }

  /** A claim is gone from its line. */
  left({ lock, lockNode, isFirst, place }: Claim): void {
    if (isFirst && lockNode?.isIntact === true) lockNode.emptyTo = place;
    if (this.#used.has(lock)) return;
    this.#used.add(lock);
    const [oldest] = this.#used;
    if (this.#used.size > USED_MAX && oldest !== undefined) this.#used.delete(oldest);
  }

  /** The connection is gone, and with it what was watched. */
  reset(): readonly (readonly [string, LockNode])[] {
    const nodes = [...this.#nodes];
    for (const [, node] of nodes) node.isIntact = false;
    this.#nodes.clear();
    this.#watched = 0;
    return nodes;
  }
}
