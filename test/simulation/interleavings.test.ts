import { expect, it } from 'vitest';
import { explore } from './explore.ts';

/** How many are explored on every run of the suite; `HOLDFAST_INTERLEAVINGS` asks for a longer campaign. */
const RUNS = Number(process.env.HOLDFAST_INTERLEAVINGS ?? 20_000);
const FIRST_SEED = Number(process.env.HOLDFAST_SEED ?? 1);

it('no interleaving of acquire, abort, renew, release, expiry and lost replies breaks a lock', {
  timeout: 600_000,
}, async () => {
  const traces = new Set<string>();
  let holds = 0;
  let losses = 0;
  for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed += 1) {
    try {
      const found = await explore(seed);
      traces.add(hashOf(found.trace));
      holds += found.holds;
      losses += found.losses;
    } catch (error) {
      throw new Error(`seed ${seed} (HOLDFAST_SEED=${seed} HOLDFAST_INTERLEAVINGS=1)`, { cause: error });
    }
  }
  console.log(`${traces.size} different interleavings, ${holds} holds, ${losses} of them lost on the way`);
  expect(traces.size, 'the interleavings are different ones').toBeGreaterThan(RUNS * 0.99);
  expect(holds, 'and much was held in them').toBeGreaterThan(RUNS * 2);
  expect(losses).toBeGreaterThan(RUNS * 0.1);
});

it('a seed repeats its interleaving exactly', async () => {
  const [first, second] = [await explore(7), await explore(7)];
  expect(second.trace).toBe(first.trace);
});

/** FNV-1a over the text, twice with different starts: enough to tell a few million traces apart. */
function hashOf(text: string): string {
  let [a, b] = [0x811c9dc5, 0x01000193];
  for (let index = 0; index < text.length; index += 1) {
    a = Math.imul(a ^ text.charCodeAt(index), 0x01000193);
    b = Math.imul(b ^ text.charCodeAt(index), 0x85ebca6b);
  }
  return `${a >>> 0}:${b >>> 0}`;
}
