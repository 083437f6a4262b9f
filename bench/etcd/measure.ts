import type { Contender } from '../shared/contender.ts';

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

/** How many acquires and releases a second this many tasks make, each on its own lock. */
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

/** Reports the throughput of 100 tasks on 100 names, as a ratio to the bare requests. */
export async function compareThroughput(bare: Contender, ours: Contender, rounds: number): Promise<void> {
  for (const each of [bare, ours]) await manyAtOnce(each, 100, 1_000, 'many');
  const ratios: number[] = [];
  const rates: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const theirs = await manyAtOnce(bare, 100, 1_000, 'many');
    const own = await manyAtOnce(ours, 100, 1_000, 'many');
    rates.push(own);
    ratios.push(own / theirs);
  }
  const figure = `${median(rates).toFixed(0)}/s, ${median(ratios).toFixed(2)} × the floor`;
  report('100 tasks on 100 names: throughput', figure, '≥ 1.0 ×', median(ratios) >= 1);
  await bare.close();
  await ours.close();
}

/**
 * Measures a handoff with 10 and with 100 waiters in turns. Returns the last one, and the ratio.
 */
export async function compareHandoffs<T extends { readonly eachMs: number }>(
  measure: (waiters: number) => Promise<T>,
): Promise<{ last: T; ratio: number }> {
  await measure(10);
  const ratios: number[] = [];
  let last = await measure(100);
  for (let round = 0; round < 5; round += 1) {
    const few = await measure(10);
    last = await measure(100);
    ratios.push(last.eachMs / few.eachMs);
  }
  return { last, ratio: median(ratios) };
}
