import { capacityOf, weightOf } from '../../store/grant-rule.ts';
import type { Mode } from '../../store/store.ts';

/** A mode as two numbers, as the tables store it. Exclusive: 0 of 0. Shared: 1 of 0. */
export interface ModeColumns {
  readonly count: number;
  readonly of: number;
}

export function columnsOf(mode: Mode): ModeColumns {
  if (mode.kind === 'permits') return { count: mode.count, of: mode.of };
  return { count: mode.kind === 'shared' ? 1 : 0, of: 0 };
}

export function modeOf({ count, of }: ModeColumns): Mode {
  if (of > 0) return { kind: 'permits', count, of };
  return { kind: count === 0 ? 'exclusive' : 'shared' };
}

/** The holders of a lock, summed up by the database. */
export interface Holders {
  readonly holds: number;
  readonly of: number | null;
  /** The smallest `count`, which is 0 when a holder is exclusive. */
  readonly least: number | null;
  readonly permits: number;
  /** Milliseconds until the first hold ends. */
  readonly left: number | null;
}

export function presentMode(holders: Holders): Mode | null {
  if (holders.holds === 0) return null;
  return modeOf({ count: holders.least ?? 0, of: holders.of ?? 0 });
}

export function weightHeld(holders: Holders): number {
  const mode = presentMode(holders);
  if (mode === null) return 0;
  if (mode.kind === 'permits') return holders.permits;
  return mode.kind === 'shared' ? holders.holds * weightOf(mode) : capacityOf(mode);
}
