import { simulate } from '../../src/testing/index.ts';
import { explore, STEPS } from './explore.ts';
import { explorePrimitives, STEPS as PRIMITIVE_STEPS } from './explore-primitives.ts';
import { fencedRegister, room } from './scenarios.ts';
import { exploreOrShrink } from './violation.ts';

/** What some histories did, so that a run which did too little shows. */
export interface Totals {
  histories: number;
  held: number;
  lost: number;
}

const LOCKS = { ttlMs: 1_000, waitMs: 20_000 };

/** One history of one kind. Interleavings of the lock itself are the most frequent kind. */
const KINDS: readonly ((seed: number) => Promise<{ held: number; lost: number }>)[] = [
  interleaving,
  interleaving,
  interleaving,
  interleaving,
  interleaving,
  interleaving,
  (seed) => exploreOrShrink(explorePrimitives, seed, PRIMITIVE_STEPS),
  (seed) => simulate(fencedRegister, { seed, histories: 1, locks: LOCKS }),
  (seed) => simulate(room, { seed, histories: 1, locks: LOCKS }),
];

async function interleaving(seed: number): Promise<{ held: number; lost: number }> {
  const { holds, losses } = await exploreOrShrink(explore, seed, STEPS);
  return { held: holds, lost: losses };
}

/**
 * The histories of a range of seeds. The seed decides the kind, too, so it repeats the history alone.
 * Throws at the first violation, with its story.
 */
export async function playSeeds(
  from: number,
  count: number,
  onProgress: (totals: Totals) => void = () => {},
): Promise<Totals> {
  const totals: Totals = { histories: 0, held: 0, lost: 0 };
  for (let seed = from; seed < from + count; seed += 1) {
    const play = KINDS[seed % KINDS.length] ?? interleaving;
    const { held, lost } = await play(seed);
    totals.histories += 1;
    totals.held += held;
    totals.lost += lost;
    onProgress(totals);
  }
  return totals;
}
