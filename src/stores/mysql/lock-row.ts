import type { Mode } from '../../store/store.ts';
import type { Row } from './connection.ts';

/** A claim that holds the lock. Times are microseconds of the server's clock. */
export interface Hold {
  readonly id: string;
  readonly mode: Mode;
  /** As text, because JSON has no numbers of this size. */
  readonly fence: string;
  readonly grantedAtUs: number;
  readonly expiresAtUs: number;
  readonly ttlMs: number;
  readonly note: string;
}

export interface Queued {
  readonly id: string;
  readonly mode: Mode;
  /** When its store last said that it still waits. */
  readonly seenAtUs: number;
  readonly note: string;
}

/** The row of one lock as it was read. It does not exist while its version is `null`. */
export interface LockRow {
  readonly name: string;
  /** Changes with every write of the row. */
  readonly version: string | null;
  /** The server's time when the row was read. */
  readonly nowUs: number;
  /** Every new fence must exceed this. */
  readonly floor: bigint;
  /** The greatest fence that was given for this lock. */
  readonly fence: bigint;
  readonly holds: readonly Hold[];
  readonly queue: readonly Queued[];
}

/** A waiter of which nothing was heard for this long is not in the queue any more. */
export const FORGET_US = 60_000_000;

/** From a row of `READ`. Binary columns come as buffers. */
export function decodeRow(columns: Row): LockRow {
  const [now, floor, name, version, last, holder, granted, expires, ttlMs, note, claims] = columns;
  const fence = String(last ?? 0);
  const times = { grantedAtUs: Number(granted), expiresAtUs: Number(expires), ttlMs: Number(ttlMs) };
  const alone = { id: String(holder), mode: { kind: 'exclusive' }, fence, ...times, note: String(note) };
  return {
    name: String(name),
    version: version === null ? null : String(version),
    nowUs: Number(now),
    floor: BigInt(String(floor)),
    fence: BigInt(fence),
    holds: holder === null ? [] : [alone],
    queue: [],
    ...(claims === null ? {} : JSON.parse(String(claims))),
  };
}

/** A row as `WRITE` takes it. `was`: the version that it has until then. */
export function encodeRow(row: LockRow, was: string | null): readonly (string | number | null)[] {
  const { name, version, nowUs, floor, fence, holds, queue } = row;
  const alone = queue.length === 0 && holds[0]?.mode.kind === 'exclusive' ? holds[0] : null;
  const { id = null, grantedAtUs = nowUs, ttlMs = 0, note = '' } = alone ?? {};
  const isInColumns = alone !== null || holds.length + queue.length === 0;
  const claims = isInColumns ? null : JSON.stringify({ holds, queue });
  const ends = [...holds.map((hold) => hold.expiresAtUs), ...queue.map((each) => each.seenAtUs + FORGET_US)];
  const times = [grantedAtUs, Math.max(nowUs, ...ends), ttlMs];
  return [name, was, version, `${floor}`, `${fence}`, id, ...times, note, claims];
}
