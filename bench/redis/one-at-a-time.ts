import { type Contender, fenced, floor, holdfast, peers } from './contenders.ts';
import { alternate, middle, report } from './measure.ts';

const ROUNDS = 15;
const PAIRS = 400;
/** Until everything is compiled, for each of them: the client's own code, which all of them share, is so after a few of these, and a lock's would still be interpreted. A service has long been running. */
const WARM_ROUNDS = 25;

/** One task takes and gives back one uncontended lock after the other: ms for each pair. */
export async function pairs(contender: Contender): Promise<number[]> {
  const samples: number[] = [];
  for (let n = 0; n < PAIRS; n += 1) {
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
  const results = await alternate(contenders, ROUNDS, pairs);
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
    atMost: 1.1,
  });
  report('p50 of acquire + release, to the floor', of('holdfast') / of('floor'), { atMost: 1.25 });
  for (const contender of contenders) await contender.close();
}
