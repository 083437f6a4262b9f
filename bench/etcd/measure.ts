import type { Contender } from './contenders.ts';

export const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

export function report(what: string, figure: string, target: string, met: boolean): void {
  console.log(`${met ? 'ok  ' : 'MISS'}  ${what.padEnd(58)} ${figure.padStart(44)}   target ${target}`);
  if (!met) process.exitCode = 1;
}

/** Milliseconds for one acquire and release, one after the other. */
export async function oneAfterTheOther(contender: Contender, rounds: number, label: string): Promise<number> {
  const startedAt = performance.now();
  for (let n = 0; n < rounds; n += 1) {
    const release = await contender.acquire(`${label}-${n % 16}`);
    await release();
  }
  return (performance.now() - startedAt) / rounds;
}

/** Acquires and releases in a second, by so many tasks with a name each. */
export async function manyAtOnce(
  contender: Contender,
  tasks: number,
  forMs: number,
  label: string,
): Promise<number> {
  const startedAt = performance.now();
  const until = startedAt + forMs;
  let done = 0;
  await Promise.all(
    Array.from({ length: tasks }, async (_, n) => {
      while (performance.now() < until) {
        const release = await contender.acquire(`${label}-${n}`);
        await release();
        done += 1;
      }
    }),
  );
  return (done * 1_000) / (performance.now() - startedAt);
}
