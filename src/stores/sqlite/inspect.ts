import type { StoredClaim } from '../../store/store.ts';
import { type ModeColumns, modeOf } from '../shared/mode-columns.ts';
import type { Connection } from './connection.ts';

export const NAMES_PAGE = 256;
/** Sorts after every name: 516 bytes of the greatest character, where a name has at most 512. */
const LAST_NAME = '\u{10ffff}'.repeat(129);

interface ClaimRow extends ModeColumns {
  readonly granted: number;
  readonly id: string;
  readonly fence: string;
  readonly note: string;
  readonly left: number;
  /** Milliseconds since the grant; -1 when that is not known. */
  readonly held: number;
}

export function readClaims(db: Connection, name: string): StoredClaim[] {
  const now = db.now();
  const [boot, ms] = now;
  return db.all<ClaimRow>('read', ...now, boot, ms, name, ...now, ...now, name, ...now).map(describe);
}

/** The next names with this prefix, in order. */
export function namesAfter(db: Connection, prefix: string, after: string): string[] {
  const values = [after, prefix + LAST_NAME, prefix, prefix, ...db.now()] as const;
  return db.all<{ name: string }>('names', ...values, ...values, NAMES_PAGE).map(({ name }) => name);
}

function describe(row: ClaimRow): StoredClaim {
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
