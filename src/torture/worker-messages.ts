import type { HistoryEvent } from './history.ts';

/** What one task of a worker does again and again. */
export type Workload = 'lock' | 'register' | 'fenced' | 'seldom' | 'shared' | 'permits';

/** What a worker is to do; its only argument, as JSON. */
export interface WorkerPlan {
  /** The adapter module, as a `file:` URL. */
  readonly module: string;
  readonly url: string;
  readonly ttlMs: number;
  readonly seed: number;
  /** When the run began: nanoseconds of the monotonic clock. */
  readonly origin: string;
  readonly worker: number;
  /** The process number of its first task in the history. */
  readonly firstProcess: number;
  readonly workloads: readonly Workload[];
  /** A folder with one file for each unfenced register. */
  readonly registers: string;
  /** Locks to acquire once instead of the workloads, to see that they are free. */
  readonly probe?: readonly string[];
}

/** A line that a worker writes. */
export type WorkerLine =
  | { readonly event: HistoryEvent }
  /** This hold was surely held at this moment. */
  | { readonly held: { readonly process: number; readonly at: number } };

export const LOCKS = ['lock-0', 'lock-1'] as const;
export const LOCK_OF: Readonly<Record<Exclude<Workload, 'lock'>, string>> = {
  register: 'register',
  fenced: 'fenced',
  seldom: 'seldom',
  shared: 'shared',
  permits: 'permits',
};

/** The exit code of a worker whose adapter could not be made: another worker will try again. */
export const START_FAILED = 75;
