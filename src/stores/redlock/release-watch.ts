import type { Timer } from '../../clock.ts';
import type { RedlockNode } from './node.ts';
import type { NodeSet } from './node-set.ts';

/** After the first message of a release, a majority has this long to send theirs. */
const MAJORITY_MS = 10;

/** Observes, at all nodes, one lock that claims of this process wait for. */
export class ReleaseWatch {
  readonly #nodes: NodeSet;
  readonly #onFree: () => void;
  readonly #watches: readonly Promise<AsyncDisposable>[];
  /** The nodes that have reported a release since `onFree` was last called. */
  readonly #told = new Set<RedlockNode>();
  #timer: Timer | null = null;

  /** Calls `onFree` when a majority of the nodes is observed, and then after every release. */
  constructor(nodes: NodeSet, name: string, onFree: () => void) {
    this.#nodes = nodes;
    this.#onFree = onFree;
    this.#watches = nodes.nodes.map((node) =>
      node.watch({ name }, (mayGrant) => {
        if (mayGrant) this.#onTold(node);
      }),
    );
    let armed = 0;
    const onArmed = (): void => {
      armed += 1;
      if (armed === nodes.majority) this.#call();
    };
    for (const watch of this.#watches) watch.then(onArmed, () => {});
  }

  /** A message that is on its way may still cause a call of `onFree`. */
  end(): void {
    this.#timer?.cancel();
    for (const watch of this.#watches) watch.then((made) => made[Symbol.asyncDispose]()).catch(() => {});
  }

  #onTold(node: RedlockNode): void {
    this.#told.add(node);
    if (this.#told.size >= this.#nodes.majority) this.#call();
    else this.#timer ??= this.#nodes.clock.startTimer(MAJORITY_MS, () => this.#call());
  }

  #call(): void {
    this.#told.clear();
    this.#timer?.cancel();
    this.#timer = null;
    this.#onFree();
  }
}
