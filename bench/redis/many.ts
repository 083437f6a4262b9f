import { type Contender, holdfast, peers } from './contenders.ts';
import { alternate, middle, report } from './measure.ts';

const ROUNDS = 5;
const ROUND_MS = 1_000;

/** So many tasks, each with a lock of its own, for a second: pairs a second. */
export async function throughput(contender: Contender, tasks: number): Promise<number[]> {
  const endMs = performance.now() + ROUND_MS;
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
  return [(pairs * 1000) / ROUND_MS];
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
