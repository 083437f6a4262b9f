import type { Clock } from '../../clock.ts';
import { ModeMismatchError, QueueFullError, StoreError } from '../../errors.ts';
import type { ClaimRef, ClaimRequest } from '../../store/store.ts';
import type { Batch } from '../shared/batch.ts';
import type { ConnectionPool } from '../shared/connection-pool.ts';
import { columnsOf, modeOf } from '../shared/mode-columns.ts';
import { againAnswer, pooledBatch, type SingleStatement } from '../shared/pooled-batch.ts';
import { arrayOf, type Connection, type Row, type Statement } from './connection.ts';
import { failures } from './failure.ts';
import type { Schema } from './schema.ts';

/** One operation of `holdfast.batch`; `migrations/` says what its arguments and answers are. */
export interface Operation extends ClaimRef {
  readonly op: 'c' | 'w' | 'r' | 'd';
  readonly ttlMs?: number;
  /** Both are 0, or absent, for an exclusive claim. */
  readonly count?: number;
  readonly of?: number;
  /** `null`: no note, or an unchanged one. */
  readonly note?: string | null;
  readonly fenceAbove?: bigint;
  /** No caller waits for it, so it does not keep the process alive. */
  readonly isBackground?: boolean;
}

/**
 * An operation shares a statement with others. Its result is one row with one column. The text of a
 * single statement spells the schema `holdfast`; `schema.sql` puts the real name there.
 */
export type LeaseRequest = Operation | (SingleStatement & Statement);
export type LeaseBatch = Batch<LeaseRequest, readonly Row[]>;

export interface LeaseBatchOptions extends Pick<StatementContext, 'queueMax'> {
  readonly clock: Clock;
  readonly schema: Schema;
  readonly pool: ConnectionPool<Connection>;
  /** The channel that this process listens to now; `null`: none. */
  readonly channel: () => string | null;
}

interface StatementContext {
  /** The connection is direct, so it has the settings of `connection-pool.ts`. */
  readonly isSetUp: boolean;
  readonly queueMax: number;
  readonly channel: string | null;
}

const stayedBusy = (): StoreError =>
  new StoreError(`${failures.label}: the lock stayed busy`, { applied: 'no' });

/** The operations of a call are one statement. */
export function leaseBatch({ clock, schema, pool, queueMax, channel }: LeaseBatchOptions): LeaseBatch {
  return pooledBatch<Connection, LeaseRequest, readonly Row[]>({
    clock,
    pool,
    async send(connection, requests, call) {
      const [single] = requests;
      if (single !== undefined && 'text' in single)
        return [{ value: await connection.run({ ...single, text: schema.sql(single.text) }) }];
      const context = { isSetUp: connection.isDirect, queueMax, channel: channel() };
      const [row] = await connection.run(statementOf(schema, requests as readonly Operation[], context));
      const answers = row?.[0]?.split(',') ?? [];
      // An operation without an answer gets an empty one, which decodes to an error.
      return requests.map((_, position) => {
        const answer = answers[position] ?? '';
        if (answer === 'b') return againAnswer(clock, call.triesOf(position), stayedBusy);
        return { value: [[answer]] };
      });
    },
    failures,
  });
}

export function claimOperation({ name, id, ttlMs, mode, note, fenceAbove, wait }: ClaimRequest): Operation {
  const op = wait ? 'w' : 'c';
  return { op, name, id, ttlMs, ...columnsOf(mode), note: note === '' ? null : note, fenceAbove };
}

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

const isPlain = ({ count = 0, note = null }: Operation): boolean => count === 0 && note === null;

/** The statement of a tick with one operation. `npm run bench -- postgres single` shows its gain. */
function singleStatement(
  { calls: { claim, renew, release } }: Schema,
  { op, name, id, ttlMs, fenceAbove }: Operation,
  { queueMax, channel }: StatementContext,
): Statement {
  if (op === 'd') return { ...release, values: [name, id] };
  if (op === 'r') return { ...renew, values: [name, id, `${ttlMs}`] };
  const wait = op === 'w' ? 't' : 'f';
  return { ...claim, values: [name, id, `${ttlMs}`, wait, `${fenceAbove}`, `${queueMax}`, channel] };
}

export function batchStatement(
  { calls }: Schema,
  operations: readonly Operation[],
  { isSetUp, queueMax, channel }: StatementContext,
): Statement {
  let greatestFence = 0n;
  for (const { fenceAbove = 0n } of operations) if (fenceAbove > greatestFence) greatestFence = fenceAbove;
  const values = [
    operations.map(({ op }) => op).join(''),
    arrayOf(operations.map(({ name }) => name)),
    arrayOf(operations.map(({ id }) => id)),
    arrayOf(operations.map(({ ttlMs = 0 }) => ttlMs)),
    arrayOf(operations.map(({ count = 0 }) => count)),
    arrayOf(operations.map(({ of = 0 }) => of)),
    arrayOf(operations.map(({ note = null }) => note)),
    `${greatestFence}`,
    `${queueMax}`,
    channel,
  ];
  return { ...(isSetUp ? calls.batch : calls.batchAnywhere), values };
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
  const message = `PostgreSQL gave an unexpected answer: ${answer.slice(0, 80)}`;
  return new StoreError(message, { applied: 'unknown' });
}
