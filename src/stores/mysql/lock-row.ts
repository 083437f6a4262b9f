import type { Mode } from '../../store/store.ts';
import { columnsOf, modeOf } from '../shared/mode-columns.ts';
import type { Row } from './connection.ts';

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
  /** When the lock was last in use, or later. */
  readonly changedAtUs: number;
}

type HoldText = [string, number, string, number, number, number, string];
type QueuedText = [string, number, string, number, string];

/** Claims as text, for a column of the row. */
export function encodeClaims(holds: readonly Hold[], queue: readonly Queued[]): string {
  const { of } = columnsOf((holds[0] ?? queue[0])?.mode ?? { kind: 'exclusive' });
  const holdTexts = holds.map(({ id, mode, fence, grantedAtUs, expiresAtUs, ttlMs, note }) => {
    const { count } = columnsOf(mode);
    return [id, count, `${fence}`, grantedAtUs, expiresAtUs, ttlMs, note] satisfies HoldText;
  });
  const queuedTexts = queue.map(
    ({ id, mode, tag, seenAtUs, note }): QueuedText => [id, columnsOf(mode).count, tag, seenAtUs, note],
  );
  return JSON.stringify([of, holdTexts, queuedTexts]);
}

export function decodeClaims(text: string): Pick<LockRow, 'holds' | 'queue'> {
  const [of, holds, queue] = JSON.parse(text) as [number, HoldText[], QueuedText[]];
  return {
    holds: holds.map((hold) => decodeHold(hold, of)),
    queue: queue.map(([id, count, tag, seenAtUs, note]) => {
      return { id, mode: modeOf({ count, of }), tag, seenAtUs, note };
    }),
  };
}

function decodeHold(text: HoldText, of = 0): Hold {
  const [id, count, fence, grantedAtUs, expiresAtUs, ttlMs, note] = text;
  return { id, mode: modeOf({ count, of }), fence: BigInt(fence), grantedAtUs, expiresAtUs, ttlMs, note };
}

const text = (value: unknown): string => (Buffer.isBuffer(value) ? value.toString() : String(value));

/** From a row of `READ` or `LIST`. */
export function decodeRow(columns: Row): LockRow {
  const [now, floor, name, version, last, holder, granted, expires, ttlMs, note, queue] = columns;
  const fence = text(last ?? 0);
  const times = [Number(granted), Number(expires), Number(ttlMs)] as const;
  const alone = holder === null ? [] : [decodeHold([text(holder), 0, fence, ...times, text(note)])];
  const others = decodeClaims(queue === null ? '[0,[],[]]' : text(queue));
  return {
    name: text(name),
    version: version === null ? null : text(version),
    nowUs: Number(now),
    floor: BigInt(text(floor)),
    fence: BigInt(fence),
    holds: [...alone, ...others.holds],
    queue: others.queue,
    changedAtUs: Number(expires),
  };
}

/** A row as `WRITE` takes it: which one it was, and what it becomes. */
export function encodeRow({ name, version, nowUs, floor, fence, holds, queue }: LockRow, next: string) {
  const alone = holds.find(({ mode }) => mode.kind === 'exclusive');
  const beside = holds.filter((hold) => hold !== alone);
  const json = beside.length + queue.length === 0 ? null : encodeClaims(beside, queue);
  const { id = null, grantedAtUs = nowUs, expiresAtUs = nowUs, ttlMs = 0, note = '' } = alone ?? {};
  const columns = [id, grantedAtUs, expiresAtUs, ttlMs, note, json];
  return [name, version, next, `${floor}`, `${fence}`, ...columns];
}
