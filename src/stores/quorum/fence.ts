import type { Clock } from '../../clock.ts';

/**
 * The fence that a majority of the nodes has stored for one claim; `null` while there is none.
 *
 * However it came there, it was stored while the node held the claim, and the node's counter has stood at it or above since. Every later claim is granted by a
 * node out of that majority, with a fence above its counter. That is why it counts only when it is the *same* fence at a majority: the greatest of different
 * ones is known to one node alone, and the next majority may do without that node.
 */
export function agreedFence(fences: readonly bigint[], majority: number): bigint | null {
  for (const fence of fences) {
    let count = 0;
    for (const other of fences) if (other === fence) count += 1;
    if (count >= majority) return fence;
  }
  return null;
}

export function greatest(fences: readonly bigint[]): bigint {
  let greatest = 0n;
  for (const fence of fences) if (fence > greatest) greatest = fence;
  return greatest;
}

/**
 * Proposes fences, always greater ones, from the clock: all nodes agree at once on a proposal that is above their counters, and clocks of clients are seldom so
 * far apart that it is not.
 */
export class Proposals {
  readonly #clock: Clock;
  #last = 0n;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  next(above: bigint): bigint {
    const now = BigInt(Math.floor(this.#clock.wallMs())) * 1000n;
    this.#last = greatest([this.#last + 1n, above + 1n, now]);
    return this.#last;
  }
}
