/** What one run of the performance bench has measured. The page and its charts are made of it. */
export interface PerformanceData {
  /** `2026-11-16`. */
  readonly date: string;
  /** A run that is too short for its figures to be trusted. */
  readonly isQuick: boolean;
  readonly seconds: number;
  /** `AMD EPYC, 2 cores, 8 GB, Linux 6.1`. */
  readonly machine: string;
  /** `ioredis 6.0.0`. */
  readonly versions: readonly string[];
  readonly latency: readonly Latency[];
  readonly throughput: readonly Curves[];
  readonly handoff: readonly Curves[];
  readonly waiting: readonly Waiting[];
  readonly memory: readonly Memory[];
}

/** Holdfast itself, the least that the server's own commands cost, or another package. */
export type Kind = 'holdfast' | 'floor' | 'peer';

export interface Named {
  readonly name: string;
  readonly kind: Kind;
}

/** µs of one acquire and release, by one task, without contention. */
export interface Distribution {
  readonly p5: number;
  readonly p25: number;
  readonly p50: number;
  readonly p75: number;
  readonly p95: number;
  readonly p99: number;
}

export interface Latency {
  readonly store: string;
  readonly entries: readonly (Named & { readonly us: Distribution })[];
}

/** A figure of each contender at each point: tasks, or waiters. */
export interface Curves {
  readonly store: string;
  readonly points: readonly number[];
  readonly entries: readonly (Named & { readonly figures: readonly number[] })[];
}

/** Commands or statements a second, as the server counts them, while waiters wait. */
export interface Waiting {
  readonly store: string;
  readonly waiters: number;
  readonly entries: readonly (Named & { readonly perSecond: number; readonly connections: number })[];
}

/** Bytes of each hold and of each waiter: heap of the process, and memory of the server. */
export interface Memory {
  readonly store: string;
  readonly holds: number;
  readonly waiters: number;
  readonly entries: readonly (Named & MemoryFigures)[];
}

export interface MemoryFigures {
  readonly holdBytes: number;
  /** `null` for a floor that cannot wait. */
  readonly waiterBytes: number | null;
  readonly serverHoldBytes: number;
  readonly serverWaiterBytes: number | null;
}

export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)] ?? Number.NaN;
}

export function distributionOf(samples: readonly number[]): Distribution {
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (share: number): number => Math.round(percentile(sorted, share) * 10) / 10;
  return { p5: at(0.05), p25: at(0.25), p50: at(0.5), p75: at(0.75), p95: at(0.95), p99: at(0.99) };
}
