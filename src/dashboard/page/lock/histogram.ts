import type { DurationHistogram } from '../../api.ts';
import { showMeasured } from '../parts/durations.ts';

/** The buckets that have counts, with one empty bucket on each side. */
export interface Bars {
  readonly labels: readonly string[];
  readonly counts: readonly number[];
}

export function barsOf({ boundsMs, counts }: DurationHistogram): Bars {
  const filled = counts.flatMap((count, n) => (count > 0 ? [n] : []));
  const from = Math.max(0, (filled[0] ?? 0) - 1);
  const to = Math.min(counts.length, (filled.at(-1) ?? 0) + 2);
  return {
    labels: counts.map((_, n) => labelOf(boundsMs, n)).slice(from, to),
    counts: counts.slice(from, to),
  };
}

function labelOf(boundsMs: readonly number[], n: number): string {
  const bound = boundsMs[n];
  return bound === undefined ? `> ${bucketWords(boundsMs.at(-1) ?? 0)}` : `≤ ${bucketWords(bound)}`;
}

/** `5 ms`, `10 s`, `1 h`: bounds are round numbers. */
function bucketWords(ms: number): string {
  if (ms >= 3_600_000) return `${ms / 3_600_000} h`;
  if (ms >= 60_000) return `${ms / 60_000} m`;
  return ms >= 1000 ? `${ms / 1000} s` : `${ms} ms`;
}

/** The bucket in which this share of the durations is reached, in words. */
export function quantileWords(histogram: DurationHistogram, share: number): string {
  let seen = 0;
  for (const [n, count] of histogram.counts.entries()) {
    seen += count;
    if (seen >= share * histogram.count) return labelOf(histogram.boundsMs, n);
  }
  return 'unknown';
}

/** `3 ms`, `≤ 5 ms`, `≤ 50 ms`. */
export function summaryOf(histogram: DurationHistogram): { average: string; half: string; most: string } {
  return {
    average: showMeasured(histogram.count === 0 ? 0 : histogram.sumMs / histogram.count),
    half: quantileWords(histogram, 0.5),
    most: quantileWords(histogram, 0.95),
  };
}
