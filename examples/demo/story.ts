/**
 * What the workers tell the demo, one JSON object a line. Times are milliseconds of the host's
 * monotonic clock, which all processes share.
 */
export interface Told {
  readonly worker: string;
  readonly atMs: number;
  readonly what:
    | 'waits'
    | 'holds'
    | 'midway'
    | 'wrote'
    | 'refused'
    | 'lost'
    | 'released'
    | 'killed'
    | 'paused'
    | 'resumed';
  readonly fence?: string;
  readonly detail?: string;
}

/** Short, so that the demo is. */
export const TTL_MS = 1_500;
export const ROUNDS = 3;
export const LOCK = 'ledger';

export interface Plan {
  readonly worker: string;
  /** What happens to the worker during its first turn. */
  readonly fate: 'none' | 'killed' | 'paused';
}

export const PLANS: readonly Plan[] = [
  { worker: 'ada', fate: 'none' },
  { worker: 'ben', fate: 'killed' },
  { worker: 'cleo', fate: 'none' },
  { worker: 'dan', fate: 'paused' },
  { worker: 'eve', fate: 'none' },
];

export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
