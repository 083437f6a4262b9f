import { expect, it } from 'vitest';
import { explore, STEPS } from './explore.ts';
import { exploreOrShrink } from './violation.ts';

/**
 * How many interleavings each run of the suite explores: twice as many as `test/mutants` needs to
 * catch every planted defect. `HOLDFAST_INTERLEAVINGS` asks for a longer campaign.
 */
const RUNS = Number(process.env.HOLDFAST_INTERLEAVINGS ?? 6_000);
const FIRST_SEED = Number(process.env.HOLDFAST_SEED ?? 1);

it('no interleaving of acquire, abort, renew, release, expiry and lost replies breaks a lock', {
  timeout: 600_000,
}, async () => {
  const traces = new Set<string>();
  let holds = 0;
  let losses = 0;
  for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed += 1) {
    const found = await exploreOrShrink(explore, seed, STEPS);
    traces.add(hashOf(found.trace));
    holds += found.holds;
    losses += found.losses;
  }
  console.log(`${traces.size} different interleavings, ${holds} holds, ${losses} of them lost`);
  expect(traces.size, 'the interleavings differ').toBeGreaterThan(RUNS * 0.99);
  expect(holds, 'locks were held').toBeGreaterThan(RUNS * 2);
  expect(losses, 'holds were lost').toBeGreaterThan(RUNS * 0.1);
});

it('a seed repeats its interleaving exactly', async () => {
  const [first, second] = [await explore(7), await explore(7)];
  expect(second.trace).toBe(first.trace);
});

/** FNV-1a twice, with different starts: enough to tell a few million traces apart. */
function hashOf(text: string): string {
  let [a, b] = [0x811c9dc5, 0x01000193];
  for (let index = 0; index < text.length; index += 1) {
    a = Math.imul(a ^ text.charCodeAt(index), 0x01000193);
    b = Math.imul(b ^ text.charCodeAt(index), 0x85ebca6b);
  }
  return `${a >>> 0}:${b >>> 0}`;
}
