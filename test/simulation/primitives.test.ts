import { afterEach, beforeEach, expect, it } from 'vitest';
import { explorePrimitives, STEPS, type Tally } from './explore-primitives.ts';
import { exploreOrShrink } from './violation.ts';

/** How many runs the suite explores. `HOLDFAST_PRIMITIVES` asks for a longer campaign. */
const RUNS = Number(process.env.HOLDFAST_PRIMITIVES ?? 1_500);
const FIRST_SEED = Number(process.env.HOLDFAST_SEED ?? 1);

const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
beforeEach(() => void process.on('unhandledRejection', onUnhandled));
afterEach(() => void process.off('unhandledRejection', onUnhandled));

it('several locks, elections, once-only runs, limits and closing work together in any order', {
  timeout: 600_000,
}, async () => {
  const total: Tally = { held: 0, lost: 0, elected: 0, led: 0, ran: 0, closed: 0 };
  for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed += 1) {
    const tally = await exploreOrShrink(explorePrimitives, seed, STEPS);
    for (const key of Object.keys(total) as (keyof Tally)[]) total[key] += tally[key];
    expect(unhandled, `seed ${seed}`).toEqual([]);
  }
  console.log(`${RUNS} runs: ${JSON.stringify(total)}`);
  expect(total.held, 'locks were held').toBeGreaterThan(RUNS);
  for (const count of [total.lost, total.elected, total.led, total.ran, total.closed])
    expect(count).toBeGreaterThan(RUNS * 0.1);
});
