import { ModeMismatchError, QueueFullError, StoreError } from '../../errors.ts';
import type { ClaimRef, ClaimRequest } from '../../store/store.ts';
import { columnsOf, modeOf } from '../shared/mode-columns.ts';
import type { Statement } from './driver-connection.ts';
import type { Schema } from './schema.ts';

/** One operation of `holdfast.batch`; `migrations/` says what its arguments and answers are. */
export interface Operation extends ClaimRef {
  readonly op: 'c' | 'w' | 'r' | 'd';
  readonly ttlMs: number;
  /** Both are 0 for an exclusive claim. */
  readonly count: number;
  readonly of: number;
  /** `null`: no note, or an unchanged one. */
  readonly note: string | null;
  readonly fenceAbove: bigint;
  /** No caller waits for it, so it does not keep the process alive. */
  readonly isBackground?: boolean;
}

export interface StatementContext {
  /** The connection is direct, so it has the settings of `connection-pool.ts`. */
  readonly isSetUp: boolean;
  readonly queueMax: number;
  /** The channel that this process listens to; `null`: none. */
  readonly channel: string | null;
}

export function claimOperation(request: ClaimRequest): Operation {
  const { name, id, ttlMs, note, fenceAbove } = request;
  const { count, of } = columnsOf(request.mode);
  return {
    op: request.wait ? 'w' : 'c',
    name,
    id,
    ttlMs,
    count,
    of,
    note: note === '' ? null : note,
    fenceAbove,
  };
}

export function renewOperation({ name, id }: ClaimRef, ttlMs: number, note: string | undefined): Operation {
  const operation = {
    op: 'r',
    name,
    id,
    ttlMs,
    count: 0,
    of: 0,
    note: note ?? null,
    fenceAbove: 0n,
  } as const;
  return { ...operation, isBackground: true };
}

export function releaseOperation({ name, id }: ClaimRef): Operation {
  return { op: 'd', name, id, ttlMs: 0, count: 0, of: 0, note: null, fenceAbove: 0n };
}

/** One statement with all of these operations. */
export function statementOf(
  schema: Schema,
  operations: readonly Operation[],
  context: StatementContext,
): Statement {
  const [only] = operations;
  if (operations.length === 1 && only !== undefined && context.isSetUp && isPlain(only))
    return singleStatement(schema, only, context);
  return batchStatement(schema, operations, context);
}

const isPlain = ({ count, note }: Operation): boolean => count === 0 && note === null;

/** The statement of a tick with one operation. `npm run bench -- postgres single` shows its gain. */
function singleStatement(
  { calls: { claim, renew, release } }: Schema,
  { op, name, id, ttlMs, fenceAbove }: Operation,
  { queueMax, channel }: StatementContext,
): Statement {
  if (op === 'd') return { text: release.text, name: release.name, values: [name, id] };
  if (op === 'r') return { text: renew.text, name: renew.name, values: [name, id, `${ttlMs}`] };
  const wait = op === 'w' ? 't' : 'f';
  const values = [name, id, `${ttlMs}`, wait, `${fenceAbove}`, `${queueMax}`, channel];
  return { text: claim.text, name: claim.name, values };
}

export function batchStatement(
  { calls }: Schema,
  operations: readonly Operation[],
  { isSetUp, queueMax, channel }: StatementContext,
): Statement {
  let ops = '';
  let fenceAbove = 0n;
  let hasModes = false;
  let hasNotes = false;
  for (const each of operations) {
    ops += each.op;
    if (each.fenceAbove > fenceAbove) fenceAbove = each.fenceAbove;
    hasModes ||= each.count > 0;
    hasNotes ||= each.note !== null;
  }
  const values = [
    ops,
    textArray(operations, (each) => each.name),
    textArray(operations, (each) => each.id),
    numberArray(operations, (each) => each.ttlMs),
    hasModes ? numberArray(operations, (each) => each.count) : null,
    hasModes ? numberArray(operations, (each) => each.of) : null,
    hasNotes ? textArray(operations, (each) => each.note) : null,
    `${fenceAbove}`,
    `${queueMax}`,
    channel,
  ];
  const { text, name } = isSetUp ? calls.batch : calls.batchAnywhere;
  return { text, name, values };
}

/** A grant with its fence, or a refusal with the time to the next attempt. Throws for an error. */
export function claimAnswer(
  request: ClaimRequest,
  answer: string,
  queueMax: number,
): { granted: true; fence: bigint; isNew: boolean } | { granted: false; endsInMs: number } {
  const rest = answer.slice(1);
  switch (answer[0]) {
    case 'g':
    case 'n':
      return { granted: true, fence: BigInt(rest), isNew: answer[0] === 'n' };
    case 'w':
      return { granted: false, endsInMs: Number(rest) };
    case 'l':
      throw new QueueFullError(request.name, queueMax);
    case 'm': {
      const [count = 0, of = 0] = rest.split('/').map(Number);
      throw new ModeMismatchError(request.name, request.mode, modeOf({ count, of }));
    }
    default:
      throw unexpected(answer);
  }
}

/** Whether the renewed or released claim existed. Throws for any other answer than yes or no. */
export function isStillThere(answer: string): boolean {
  if (/^[012]$/.test(answer)) return answer !== '0';
  throw unexpected(answer);
}

function unexpected(answer: string): StoreError {
  return new StoreError(`PostgreSQL gave an unexpected answer: ${answer.slice(0, 80)}`, {
    applied: 'unknown',
  });
}

/** In PostgreSQL's text format, because client libraries write arrays differently. */
function textArray(operations: readonly Operation[], textOf: (each: Operation) => string | null): string {
  let text = '{';
  for (const each of operations) {
    const value = textOf(each);
    if (text.length > 1) text += ',';
    text += value === null ? 'NULL' : `"${value.replace(/["\\]/g, '\\$&')}"`;
  }
  return `${text}}`;
}

function numberArray(operations: readonly Operation[], numberOf: (each: Operation) => number): string {
  let text = '{';
  for (const each of operations) text += `${text.length > 1 ? ',' : ''}${numberOf(each)}`;
  return `${text}}`;
}
