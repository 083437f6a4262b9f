import type { Named, PerformanceData } from './data.ts';
import { counted, short } from './svg.ts';

/** A difference that two runs can show without a cause. */
const NOISE = 0.03;

const MEMORY_KEYS = [
  ['holdBytes', 'heap of a hold'],
  ['waiterBytes', 'heap of a waiter'],
  ['serverHoldBytes', "server's memory of a hold"],
  ['serverWaiterBytes', "server's memory of a waiter"],
] as const;

interface Comparison {
  /** `acquire and release a free lock on Redis`. */
  readonly what: string;
  readonly unit: string;
  readonly isMoreBetter: boolean;
  readonly entries: readonly (Named & { readonly figure: number })[];
}

function* comparisonsOf(data: PerformanceData): Generator<Comparison> {
  for (const { store, entries } of data.latency) {
    for (const key of ['p50', 'p99'] as const) {
      const figures = entries.map(({ name, kind, us }) => ({ name, kind, figure: us[key] }));
      yield { what: `a free lock on ${store}, ${key}`, unit: ' µs', isMoreBetter: false, entries: figures };
    }
  }
  for (const [topic, unit, isMoreBetter, all] of [
    ['tasks', ' pairs/s', true, data.throughput],
    ['waiting', ' µs', false, data.handoff],
  ] as const) {
    for (const { store, points, entries } of all) {
      for (const [n, point] of points.entries()) {
        const figures = entries.map(({ name, kind, figures: each }) => {
          return { name, kind, figure: each[n] ?? Number.NaN };
        });
        const what = `${isMoreBetter ? 'throughput' : 'handoff'} on ${store} with ${counted(point, topic)}`;
        yield { what, unit, isMoreBetter, entries: figures };
      }
    }
  }
  for (const { store, waiters, entries } of data.waiting) {
    const figures = entries.map(({ name, kind, perSecond: figure }) => ({ name, kind, figure }));
    const what = `what ${waiters} waiters on ${store} cost`;
    yield { what, unit: ' commands/s', isMoreBetter: false, entries: figures };
  }
  for (const { store, entries } of data.memory) {
    for (const [key, what] of MEMORY_KEYS) {
      const figures = entries.map((entry) => ({
        ...entry,
        figure: Math.max(entry[key] ?? 0, 0),
      }));
      yield { what: `${what} on ${store}`, unit: ' bytes', isMoreBetter: false, entries: figures };
    }
  }
}

/** One sentence for each measurement in which another package beats Holdfast. */
export function peersAhead(data: PerformanceData): string[] {
  return [...comparisonsOf(data)].flatMap(({ what, unit, isMoreBetter, entries }) => {
    const own = entries.find(({ kind }) => kind === 'holdfast')?.figure;
    if (own === undefined) return [];
    const isAhead = (figure: number): boolean =>
      isMoreBetter ? figure > own * (1 + NOISE) : figure < own * (1 - NOISE);
    const ahead = entries.filter(({ kind, figure }) => kind === 'peer' && isAhead(figure));
    if (ahead.length === 0) return [];
    const named = ahead.map(({ name, figure }) => `${name} ${short(figure)}${unit}`).join(', ');
    return [`${what.charAt(0).toUpperCase()}${what.slice(1)}: ${named}; Holdfast ${short(own)}${unit}.`];
  });
}
