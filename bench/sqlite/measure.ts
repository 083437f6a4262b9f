/** One target and what was measured against it. */
export interface Finding {
  readonly what: string;
  readonly value: string;
  readonly target: string;
  readonly met: boolean;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** Microseconds for one call, averaged over `count` calls. */
export async function microsecondsEach(times: number, work: (n: number) => unknown): Promise<number> {
  const startedAt = process.hrtime.bigint();
  for (let n = 0; n < times; n += 1) {
    const result = work(n);
    if (result instanceof Promise) await result;
  }
  return Number(process.hrtime.bigint() - startedAt) / 1e3 / times;
}
