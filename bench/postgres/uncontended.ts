import { alternate, middle, report } from '../redis/measure.ts';
import type { Contender } from '../shared/contender.ts';
import { floor, holdfast, type MakeContender, verrou } from './contenders.ts';

const PAIRS = 300;
const ROUND_MS = 700;
const ROUNDS = 9;

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

/** So many tasks, each with a lock of its own: pairs a second. */
export async function throughput(contender: Contender, tasks: number): Promise<number[]> {
  const startedMs = performance.now();
  let count = 0;
  await Promise.all(
    Array.from({ length: tasks }, async (_, task) => {
      while (performance.now() < startedMs + ROUND_MS) {
        const release = await contender.acquire(`bench-many-${task}`);
        await release();
        count += 1;
      }
    }),
  );
  return [(count * 1000) / (performance.now() - startedMs)];
}

export async function compare(
  url: string,
  unit: string,
  measure: (contender: Contender) => Promise<number[]>,
  makes: readonly MakeContender[] = [floor, holdfast, verrou],
): Promise<{ own: number; least: number }> {
  const contenders = await Promise.all(makes.map((make) => make(url)));
  for (const contender of contenders) await measure(contender);
  const results = await alternate(contenders, ROUNDS, measure);
  const figures = contenders.map((contender) => middle(results.get(contender) ?? []));
  contenders.forEach(({ name }, index) => {
    console.log(`      ${name.padEnd(28)} ${(figures[index] ?? 0).toFixed(3).padStart(10)} ${unit}`);
  });
  for (const contender of contenders) await contender.close();
  return { least: figures[0] ?? Number.NaN, own: figures[1] ?? Number.NaN };
}

export async function oneAtATime(url: string): Promise<void> {
  const { own, least } = await compare(url, 'ms', pairs);
  report('one at a time: p50 of acquire + release, to the floor', own / least, { atMost: 1.25 });
}

export async function hundred(url: string): Promise<void> {
  const { own, least } = await compare(url, 'pairs/s', (contender) => throughput(contender, 100));
  report('100 tasks on 100 names: throughput, to the floor', own / least, { atLeast: 1.2 });
}
