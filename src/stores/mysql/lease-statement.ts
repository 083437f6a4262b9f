import type { ClaimRef, ClaimRequest, RenewChange, RenewOutcome } from '../../store/store.ts';
import type { ClaimAnswer, ReleaseAnswer } from '../shared/server-queue-store.ts';
import type { Result, Row, Value } from './connection.ts';
import { decodeClaims, encodeClaims, type Hold, type RowReading } from './lock-row.ts';
import type { Operation } from './row-operations.ts';
import type { RowQueue } from './row-queue.ts';
import type { Statements } from './statements.ts';

export interface Statement {
  readonly text: string;
  readonly values: readonly Value[];
}

/** An operation, and the statement that does it by itself where no other claim is in the way. */
export interface LeaseOperation<Answer> extends Operation<Answer> {
  single?(statements: Statements, version: string): Statement;
  /** The answer of that statement; `null`: another claim was in the way. */
  singleAnswer?(result: Result): Answer | null;
}

/** `isContended`: other claims are in the way, so that the single statement would be in vain. */
export function claimOperation(
  request: ClaimRequest,
  queueMax: number,
  isContended: boolean,
): LeaseOperation<ClaimAnswer> {
  const { name, id, ttlMs, note, fenceAbove, mode } = request;
  const apply = (queue: RowQueue): ClaimAnswer => queue.claim(request, queueMax);
  if (mode.kind !== 'exclusive' || isContended) return { name, apply };
  return {
    name,
    apply,
    single: ({ CLAIM }, version) => ({
      text: CLAIM,
      values: [`${fenceAbove}`, id, `${ttlMs}`, `${ttlMs}`, note, version, name],
    }),
    singleAnswer: ({ affected, insertId }) => (affected === 0 ? null : { granted: true, fence: insertId }),
  };
}

export function renewOperation(claim: ClaimRef, change: RenewChange): LeaseOperation<RenewOutcome> {
  const { name, id } = claim;
  const { ttlMs, note = null } = change;
  return {
    name,
    apply: (queue) => queue.renew(claim, change),
    single: ({ RENEW }, version) => ({
      text: RENEW,
      values: [`${ttlMs}`, `${ttlMs}`, note, version, name, id],
    }),
    singleAnswer: ({ affected }) => (affected === 0 ? null : { held: true, validForMs: ttlMs }),
    isBackground: true,
  };
}

export function releaseOperation(claim: ClaimRef, isContended: boolean): LeaseOperation<ReleaseAnswer> {
  const { name, id } = claim;
  const apply = (queue: RowQueue): ReleaseAnswer => queue.release(claim);
  if (isContended) return { name, apply };
  return {
    name,
    apply,
    single: ({ RELEASE }, version) => ({ text: RELEASE, values: [version, name, id] }),
    singleAnswer: ({ affected }) => (affected === 0 ? null : 'removed'),
  };
}

const text = (value: unknown): string => (Buffer.isBuffer(value) ? value.toString() : String(value));

/** A row of `READ` or `LIST`. */
export function readingOf(columns: Row): RowReading {
  const [now, floor, name, version, fence, holder, granted, expires, ttlMs, note, queue] = columns;
  const reading = { nowUs: Number(now), floor: BigInt(text(floor)) };
  const row = { name: text(name), version: null, fence: 0n, holds: [], queue: [], size: 0, changedAtUs: 0 };
  if (version === null) return { ...reading, row };
  const json = queue === null ? '[0,[],[]]' : text(queue);
  const rest = decodeClaims(json);
  const alone: Hold = {
    id: text(holder),
    mode: { kind: 'exclusive' },
    fence: BigInt(text(fence)),
    grantedAtUs: Number(granted),
    expiresAtUs: Number(expires),
    ttlMs: Number(ttlMs),
    note: text(note),
  };
  const holds = holder === null ? rest.holds : [alone, ...rest.holds];
  return {
    ...reading,
    row: {
      ...row,
      ...rest,
      holds,
      version: text(version),
      fence: alone.fence,
      size: json.length,
      changedAtUs: alone.expiresAtUs,
    },
  };
}

/** A row as `WRITE` takes it: which one it was, and what it becomes. */
export function writtenRow({ row, nowUs, floor }: RowQueue, version: string): readonly unknown[] {
  const alone = row.holds.find(({ mode }) => mode.kind === 'exclusive');
  const beside = row.holds.filter((hold) => hold !== alone);
  const queue = beside.length + row.queue.length === 0 ? null : encodeClaims(beside, row.queue);
  const { id = null, grantedAtUs = nowUs, expiresAtUs = nowUs, ttlMs = 0, note = '' } = alone ?? {};
  const columns = [id, grantedAtUs, expiresAtUs, ttlMs, note, queue];
  return [row.name, row.version, version, `${floor}`, `${row.fence}`, ...columns];
}
