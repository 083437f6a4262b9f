import type { Claim } from './claim.ts';

/** How many locks are remembered; for the others the line is read. */
const FRONTS_MAX = 1_000;

/**
 * Claims of this process that were granted alone: nobody was ahead of them, and nobody can come ahead of them later. When such a node is gone, whoever stands right behind it is next, however long the line is, and need not
 * read it to know.
 */
export class Fronts {
  readonly #nodes = new Map<string, string>();

  add({ lock, node, mode }: Claim): void {
    if (mode.kind !== 'exclusive' || node === null) return;
    this.#nodes.set(lock, node);
    if (this.#nodes.size <= FRONTS_MAX) return;
    const [oldest] = this.#nodes.keys();
    if (oldest !== undefined) this.#nodes.delete(oldest);
  }

  /** Is what the claim stands behind the front? */
  isRightBehind({ lock, behind }: Claim): boolean {
    return behind !== null && this.#nodes.get(lock) === behind;
  }
}
