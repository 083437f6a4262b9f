import type { Timer } from '../../clock.ts';
import type { RedlockNode } from './node.ts';
import type { NodeSet } from './node-set.ts';

/**
 * How long to wait for the messages of other nodes after the first one: a lock is free when a
 * majority has released it.
 */
const MAJORITY_MS = 10;

/** One lock that a claim of this process waits for. */
interface Watched {
  readonly watches: readonly Promise<AsyncDisposable>[];
  /** The nodes that have reported a release since `onFree` was last called. */
  readonly told: Set<RedlockNode>;
  timer: Timer | null;
}

/** Observes, at all nodes, the locks that claims of this process wait for. */
export class ReleaseWatch {
  readonly #nodes: NodeSet;
  readonly #onFree: (name: string) => void;
  readonly #watched = new Map<string, Watched>();

  /**
   * `onFree`: a majority of the nodes has reported a release, or a release may have been missed.
   */
  constructor(nodes: NodeSet, onFree: (name: string) => void) {
    this.#nodes = nodes;
    this.#onFree = onFree;
  }

  /**
   * Calls `onFree` when a majority of the nodes is observed, and after every release from then on.
   */
  begin(name: string): void {
    if (this.#watched.has(name)) return;
    const watches = this.#nodes.nodes.map((node) =>
      node.watch({ name }, (mayGrant) => {
        if (mayGrant) this.#onTold(name, node);
      }),
    );
    const watched: Watched = { watches, told: new Set(), timer: null };
    this.#watched.set(name, watched);
    let armed = 0;
    const onArmed = (): void => {
      armed += 1;
      if (armed === this.#nodes.majority && this.#watched.get(name) === watched) this.#call(name, watched);
    };
    for (const watch of watches) watch.then(onArmed, () => {});
  }

  /** No claim waits for this lock any more. */
  end(name: string): void {
    const watched = this.#watched.get(name);
    if (watched === undefined) return;
    this.#watched.delete(name);
    watched.timer?.cancel();
    for (const watch of watched.watches) watch.then((made) => made[Symbol.asyncDispose]()).catch(() => {});
  }

  clear(): void {
    for (const name of [...this.#watched.keys()]) this.end(name);
  }

  #onTold(name: string, node: RedlockNode): void {
    const watched = this.#watched.get(name);
    if (watched === undefined) return;
    watched.told.add(node);
    if (watched.told.size >= this.#nodes.majority) this.#call(name, watched);
    else watched.timer ??= this.#nodes.clock.startTimer(MAJORITY_MS, () => this.#call(name, watched));
  }

  #call(name: string, watched: Watched): void {
    watched.told.clear();
    watched.timer?.cancel();
    watched.timer = null;
    this.#onFree(name);
  }
}
