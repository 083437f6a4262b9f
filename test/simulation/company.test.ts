import { afterEach, beforeEach, expect, it } from 'vitest';
import { exploreCompany, type Tally } from './company.ts';

/** How many are explored on every run of the suite; `HOLDFAST_COMPANIES` asks for a longer campaign. */
const RUNS = Number(process.env.HOLDFAST_COMPANIES ?? 1_500);
const FIRST_SEED = Number(process.env.HOLDFAST_SEED ?? 1);

const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
beforeEach(() => void process.on('unhandledRejection', onUnhandled));
afterEach(() => void process.off('unhandledRejection', onUnhandled));

it('several locks, elections, once-only runs, limits and closing go together in any order', {
  timeout: 600_000,
}, async () => {
  const total: Tally = { held: 0, lost: 0, elected: 0, led: 0, ran: 0, closed: 0 };
  for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed += 1) {
    try {
      const tally = await exploreCompany(seed);
      for (const key of Object.keys(total) as (keyof Tally)[]) total[key] += tally[key];
      expect(unhandled).toEqual([]);
    } catch (error) {
      throw new Error(`seed ${seed} (HOLDFAST_SEED=${seed} HOLDFAST_COMPANIES=1)`, { cause: error });
    }
  }
  console.log(`${RUNS} runs: ${JSON.stringify(total)}`);
  expect(total.held, 'much was held').toBeGreaterThan(RUNS);
  for (const count of [total.lost, total.elected, total.led, total.ran, total.closed])
    expect(count).toBeGreaterThan(RUNS * 0.1);
});
