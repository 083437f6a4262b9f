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
