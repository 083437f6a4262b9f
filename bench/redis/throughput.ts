import type { Contender } from '../shared/contender.ts';
import { holdfast, peers } from './contenders.ts';
import { pairs } from './latency.ts';
import { alternate, middle, report } from './measure.ts';

const ROUNDS = 5;
const ROUND_MS = 1_000;

/** Pairs of acquire and release a second, by this many tasks with a lock each. */
export async function throughput(contender: Contender, tasks: number, roundMs = ROUND_MS): Promise<number[]> {
  const startedMs = performance.now();
  const endMs = startedMs + roundMs;
  let pairs = 0;
  await Promise.all(
    Array.from({ length: tasks }, async (_, task) => {
      while (performance.now() < endMs) {
        const release = await contender.acquire(`bench-many-${task}`);
        await release();
        pairs += 1;
      }
    }),
  );
  return [(pairs * 1000) / (performance.now() - startedMs)];
}

/** Prints latency and throughput of each contender, and returns them. Rounds alternate. */
export async function compare(
  contenders: readonly Contender[],
  { latencyRounds, throughputRounds, tasks }: Rounds,
): Promise<Compared> {
  const latency = await alternate(contenders, latencyRounds, (contender) => pairs(contender));
  const rates = await alternate(contenders, throughputRounds, (contender) => throughput(contender, tasks));
  const usOf = (contender: Contender): number => middle(latency.get(contender) ?? []) * 1000;
  const rateOf = (contender: Contender): number => middle(rates.get(contender) ?? []);
  for (const contender of contenders) {
    const us = usOf(contender).toFixed(0).padStart(6);
    const rate = rateOf(contender).toFixed(0).padStart(8);
    console.log(`      ${contender.name.padEnd(28)} ${us} us ${rate} pairs/s with ${tasks} tasks`);
  }
  return { usOf, rateOf };
}

interface Rounds {
  readonly latencyRounds: number;
  readonly throughputRounds: number;
  readonly tasks: number;
}

export interface Compared {
  /** µs for one pair. */
  usOf(contender: Contender): number;
  /** Pairs a second. */
  rateOf(contender: Contender): number;
}

export async function many(url: string, tasks: number, atLeast: number): Promise<void> {
  const contenders = [holdfast, ...peers].map((make) => make(url));
  for (const contender of contenders) await throughput(contender, tasks);
  const results = await alternate(contenders, ROUNDS, (contender) => throughput(contender, tasks));
  const rates = contenders.map((contender) => middle(results.get(contender) ?? []));
  contenders.forEach((contender, index) => {
    console.log(`      ${contender.name.padEnd(28)} ${(rates[index] ?? 0).toFixed(0).padStart(8)} pairs/s`);
  });
  const [own = 0, ...others] = rates;
  report(`${tasks} tasks on ${tasks} names, to the fastest peer`, own / Math.max(...others), { atLeast });
  for (const contender of contenders) await contender.close();
}
