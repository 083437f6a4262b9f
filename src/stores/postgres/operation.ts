import { LineFullError, ModeMismatchError, StoreError } from '../../errors.ts';
import type { ClaimRef, ClaimRequest } from '../../store/store.ts';
import { columnsOf, modeOf } from '../mode-columns.ts';
import type { Schema } from './schema.ts';
import type { Statement } from './wire.ts';

/** One item of `holdfast.batch`; `migrations/` says what its arguments and answers are. */
export interface Operation extends ClaimRef {
  readonly op: 'c' | 'w' | 'r' | 'd';
  readonly ttlMs: number;
  /** Together 0 unless it is a claim that is not exclusive. */
  readonly count: number;
  readonly of: number;
  /** `null`: none, or leave it alone. */
  readonly note: string | null;
  readonly fenceAbove: bigint;
}

export interface Circumstances {
  /** The connection has been set up for us. */
  readonly isSetUp: boolean;
  readonly lineMax: number;
  /** Where we listen; `null`: nowhere. */
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
  return { op: 'r', name, id, ttlMs, count: 0, of: 0, note: note ?? null, fenceAbove: 0n };
}

export function releaseOperation({ name, id }: ClaimRef): Operation {
  return { op: 'd', name, id, ttlMs: 0, count: 0, of: 0, note: null, fenceAbove: 0n };
}

/** The one statement for all of these. */
export function statementOf(
  { calls }: Schema,
  operations: readonly Operation[],
  circumstances: Circumstances,
): Statement {
  const [only] = operations;
  if (operations.length === 1 && only !== undefined && circumstances.isSetUp && isPlain(only))
    return statementOfOne(calls, only, circumstances);
  const { text, name } = circumstances.isSetUp ? calls.batch : calls.batchAnywhere;
  return { text, name, values: batchValues(operations, circumstances) };
}

const isPlain = ({ count, note }: Operation): boolean => count === 0 && note === null;

/** Most ticks ask for one thing, and that should cost what it must. */
function statementOfOne(
  { claim, renew, release }: Schema['calls'],
  { op, name, id, ttlMs, fenceAbove }: Operation,
  { lineMax, channel }: Circumstances,
): Statement {
  if (op === 'd') return { text: release.text, name: release.name, values: [name, id] };
  if (op === 'r') return { text: renew.text, name: renew.name, values: [name, id, `${ttlMs}`] };
  const wait = op === 'w' ? 't' : 'f';
  const values = [name, id, `${ttlMs}`, wait, `${fenceAbove}`, `${lineMax}`, channel];
  return { text: claim.text, name: claim.name, values };
}

function batchValues(
  operations: readonly Operation[],
  { lineMax, channel }: Circumstances,
): Statement['values'] {
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
  return [
    ops,
    textArray(operations, (each) => each.name),
    textArray(operations, (each) => each.id),
    numberArray(operations, (each) => each.ttlMs),
    hasModes ? numberArray(operations, (each) => each.count) : null,
    hasModes ? numberArray(operations, (each) => each.of) : null,
    hasNotes ? textArray(operations, (each) => each.note) : null,
    `${fenceAbove}`,
    `${lineMax}`,
    channel,
  ];
}

/** The fence of a grant, or the milliseconds after which the hold in front ends by itself (-1: not known). Throws the error that the answer is. */
export function claimAnswer(
  request: ClaimRequest,
  answer: string,
  lineMax: number,
): { granted: true; fence: bigint; isNew: boolean } | { granted: false; endsInMs: number } {
  const rest = answer.slice(1);
  switch (answer[0]) {
    case 'g':
    case 'n':
      return { granted: true, fence: BigInt(rest), isNew: answer[0] === 'n' };
    case 'w':
      return { granted: false, endsInMs: Number(rest) };
    case 'l':
      throw new LineFullError(request.name, lineMax);
    case 'm': {
      const [count = 0, of = 0] = rest.split('/').map(Number);
      throw new ModeMismatchError(request.name, request.mode, modeOf({ count, of }));
    }
    default:
      throw notOurs(answer);
  }
}

/** Whether there is still, or was, what is renewed or released. Throws for what is neither yes nor no: only a clear no means that a hold is lost. */
export function isThere(answer: string): boolean {
  if (/^[012]$/.test(answer)) return answer !== '0';
  throw notOurs(answer);
}

function notOurs(answer: string): StoreError {
  return new StoreError(`PostgreSQL gave an answer that is not ours: ${answer.slice(0, 80)}`, {
    applied: 'unknown',
  });
}

/** As PostgreSQL reads arrays. Ours to write: the libraries do it in ways of their own. */
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
