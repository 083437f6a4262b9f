import type { Mode } from '../../store/store.ts';
import { columnsOf, modeOf } from '../shared/mode-columns.ts';

/** A claim that holds the lock. Times are microseconds of the server's clock. */
export interface Hold {
  readonly id: string;
  readonly mode: Mode;
  readonly fence: bigint;
  readonly grantedAtUs: number;
  readonly expiresAtUs: number;
  readonly ttlMs: number;
  readonly note: string;
}

/** A claim that waits. */
export interface Queued {
  readonly id: string;
  readonly mode: Mode;
  /** Of the store that it waits in. */
  readonly tag: string;
  /** When that store last said that it is alive. */
  readonly seenAtUs: number;
  readonly note: string;
}

/** The row of one lock. It does not exist while its version is `null`. */
export interface LockRow {
  readonly name: string;
  /** Changes with every write of the row. */
  readonly version: string | null;
  /** The greatest fence that was given for this lock. */
  readonly fence: bigint;
  readonly holds: readonly Hold[];
  readonly queue: readonly Queued[];
  /** About how long its claims are as text. */
  readonly size: number;
  /** When the lock was last in use, or later. */
  readonly changedAtUs: number;
}

/** A row, the server's time when it was read, and the bound that every new fence must exceed. */
export interface RowReading {
  readonly row: LockRow;
  readonly nowUs: number;
  readonly floor: bigint;
}

type HoldText = [
  id: string,
  count: number,
  fence: string,
  granted: number,
  ends: number,
  ttl: number,
  note: string,
];
type QueuedText = [id: string, count: number, tag: string, seenAtUs: number, note: string];

/** Claims as text, for a column of the row. */
export function encodeClaims(holds: readonly Hold[], queue: readonly Queued[]): string {
  const of = columnsOf((holds[0] ?? queue[0])?.mode ?? { kind: 'exclusive' }).of;
  const holdTexts = holds.map(
    ({ id, mode, fence, grantedAtUs, expiresAtUs, ttlMs, note }): HoldText => [
      ...([id, columnsOf(mode).count, `${fence}`, grantedAtUs, expiresAtUs, ttlMs, note] as const),
    ],
  );
  const queuedTexts = queue.map(
    ({ id, mode, tag, seenAtUs, note }): QueuedText => [id, columnsOf(mode).count, tag, seenAtUs, note],
  );
  return JSON.stringify([of, holdTexts, queuedTexts]);
}

export function decodeClaims(text: string): Pick<LockRow, 'holds' | 'queue'> {
  const [of, holds, queue] = JSON.parse(text) as [number, HoldText[], QueuedText[]];
  return {
    holds: holds.map(([id, count, fence, grantedAtUs, expiresAtUs, ttlMs, note]) => ({
      ...{ id, mode: modeOf({ count, of }), fence: BigInt(fence), grantedAtUs, expiresAtUs, ttlMs, note },
    })),
    queue: queue.map(([id, count, tag, seenAtUs, note]) => ({
      ...{ id, mode: modeOf({ count, of }), tag, seenAtUs, note },
    })),
  };
}
