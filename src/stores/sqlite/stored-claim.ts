import type { StoredClaim } from '../../store/store.ts';
import { modeOf } from '../mode-columns.ts';

/** A row of the statement `read`. */
export interface ClaimRow {
  readonly granted: number;
  readonly id: string;
  readonly fence: string;
  readonly count: number;
  readonly of: number;
  readonly note: string;
  readonly left: number;
  /** Milliseconds since the grant; -1 when that is not known. */
  readonly held: number;
}

export function describeClaim(row: ClaimRow): StoredClaim {
  const granted = row.granted === 1;
  return {
    id: row.id,
    granted,
    mode: modeOf(row),
    fence: granted ? BigInt(row.fence) : null,
    heldForMs: row.held < 0 ? null : row.held,
    expiresInMs: row.left,
    note: row.note,
  };
}
