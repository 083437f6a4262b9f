import type { Mode } from './store.ts';

/**
 * The rule: a claim is granted when it and everything ahead of it fit the capacity.
 *
 * It follows that the granted claims are the front of the queue, that a grant is never taken back by
 * a later arrival, and that a waiting writer is not overtaken by readers. Every script and query of
 * every store is tested against these functions.
 */

/** More readers than any queue can hold, so that a reader weighs 1 and a writer everything. */
const READERS_MAX = 2 ** 31;

export function capacityOf(mode: Mode): number {
  return mode.kind === 'permits' ? mode.of : READERS_MAX;
}

export function weightOf(mode: Mode): number {
  if (mode.kind === 'permits') return mode.count;
  return mode.kind === 'shared' ? 1 : READERS_MAX;
}

/** Whether the next claim of the queue fits beside the weight of the claims ahead of it. */
export function fits(weightAhead: number, mode: Mode): boolean {
  return weightAhead + weightOf(mode) <= capacityOf(mode);
}

/** How many claims at the front of this queue are granted. */
export function grantedCount(queue: readonly Mode[]): number {
  let weight = 0;
  let count = 0;
  for (const mode of queue) {
    if (!fits(weight, mode)) break;
    weight += weightOf(mode);
    count += 1;
  }
  return count;
}

/**
 * Whether claims of these two modes can wait in one queue. Exclusive and shared can; permits only
 * with permits of the same capacity.
 */
export function agree(a: Mode, b: Mode): boolean {
  if (a.kind === 'permits' && b.kind === 'permits') return a.of === b.of;
  return a.kind !== 'permits' && b.kind !== 'permits';
}
