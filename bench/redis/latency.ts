import type { Contender } from '../shared/contender.ts';
import { fenced, floor, holdfast, peers } from './contenders.ts';
import { alternate, middle, report } from './measure.ts';

const ROUNDS = 15;
const PAIRS = 400;
/**
 * Rounds before the measurement, so that the code of each contender is compiled as in a service that has been
 * running for long. The code of the client, which all of them share, is compiled after a few rounds.
 */
const WARM_ROUNDS = 25;

/** ms of each pair of acquire and release, by one task on one uncontended lock; for `forMs` if it is set. */
export async function pairs(contender: Contender, forMs?: number): Promise<number[]> {
  const samples: number[] = [];
  const endMs = performance.now() + (forMs ?? 0);
  while (forMs === undefined ? samples.length < PAIRS : performance.now() < endMs) {
    const startedMs = performance.now();
    const release = await contender.acquire('bench-one');
    await release();
    samples.push(performance.now() - startedMs);
  }
  return samples;
}

export async function oneAtATime(url: string): Promise<void> {
  const contenders = [floor, fenced, holdfast, ...peers].map((make) => make(url));
  for (const contender of contenders) {
    for (let round = 0; round < WARM_ROUNDS; round += 1) await pairs(contender);
  }
  const results = await alternate(contenders, ROUNDS, (contender) => pairs(contender));
  const of = (name: string): number => {
    const found = contenders.find((contender) => contender.name.startsWith(name));
    return found === undefined ? Number.NaN : middle(results.get(found) ?? []);
  };
  for (const contender of contenders) {
    console.log(
      `      ${contender.name.padEnd(28)} ${(of(contender.name) * 1000).toFixed(0).padStart(6)} us`,
    );
  }
  report('p50 of acquire + release, to the bare fenced scripts', of('holdfast') / of('bare'), {
    atMost: 1.2,
  });
  report('p50 of acquire + release, to the floor', of('holdfast') / of('floor'), { atMost: 1.3 });
  for (const contender of contenders) await contender.close();
}
