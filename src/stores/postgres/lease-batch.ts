import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import type { Batch } from '../shared/batch.ts';
import type { Answer, CallInfo, Send } from '../shared/batch-options.ts';
import type { ConnectionPool } from '../shared/connection-pool.ts';
import { type FailureKind, isSingle, pooledBatch } from '../shared/pooled-batch.ts';
import type { Connection } from './connection.ts';
import type { Row, Statement } from './driver-connection.ts';
import { failureOf, sqlStateOf } from './failure.ts';
import { type Operation, type StatementContext, statementOf } from './lease-statement.ts';
import type { Schema } from './schema.ts';

/** A statement that shares its round trip with no operation. */
export interface SingleStatement extends Statement {
  /** No caller waits for it, so it does not keep the process alive. */
  readonly isBackground?: boolean;
}

/** An operation shares a statement with others. Its result is one row with one column. */
export type LeaseRequest = Operation | SingleStatement;
export type LeaseBatch = Batch<LeaseRequest, readonly Row[]>;

export interface LeaseBatchOptions extends Pick<StatementContext, 'queueMax'> {
  readonly clock: Clock;
  readonly schema: Schema;
  readonly pool: ConnectionPool<Connection>;
  /** The channel that this process listens to now; `null`: none. */
  readonly channel: () => string | null;
}

/** Delays of an operation that found its row locked by another session. */
const BUSY_MS = { min: 1, max: 40 };
const BUSY_TRIES_AT_ONCE = 3;
const BUSY_TRIES_MAX = 60;
/** Serialization failure and deadlock: nothing was done, and the next attempt may succeed. */
const TRY_AGAIN = new Set(['40001', '40P01']);
const RETRIES_MAX = 5;
/** Data, a constraint or a limit: one operation has failed, and the others were undone with it. */
const ONE_FAILED = /^(22|23|54)/;
/** The schema, a table or a function does not exist. */
const MISSING = new Set(['3F000', '42P01', '42883']);

/** The operations of a call are one statement. */
export function leaseBatch(options: LeaseBatchOptions): LeaseBatch {
  const { clock, schema, pool, queueMax, channel } = options;
  const send: Send<LeaseRequest, readonly Row[]> = (requests, call) => {
    const connection = pool.take(requests.some(isAwaited));
    // The answer may never come, and nothing else can be sent before it.
    call.onAbandoned = () => connection.destroy();
    const [single] = requests;
    const context = { isSetUp: connection.isDirect, queueMax, channel: channel() };
    const statement =
      single !== undefined && isSingle(single)
        ? single
        : statementOf(schema, requests as readonly Operation[], context);
    return connection.run(statement).then(
      (rows) => {
        pool.giveBack(connection);
        return statement === single ? [{ value: rows }] : answersIn(rows, requests.length, call, clock);
      },
      (error: unknown) => {
        if (MISSING.has(stateOf(error))) pool.forgetSchema();
        pool.giveBack(connection);
        throw error;
      },
    );
  };
  return pooledBatch<LeaseRequest, readonly Row[]>({
    clock,
    label: 'PostgreSQL',
    pool,
    send,
    failureOf,
    kindOf,
    retriesMax: RETRIES_MAX,
  });
}

function isAwaited(request: LeaseRequest): boolean {
  return isSingle(request) ? request.isBackground !== true : request.op !== 'r';
}

function answersIn(
  rows: readonly Row[],
  count: number,
  call: CallInfo,
  clock: Clock,
): Answer<readonly Row[]>[] {
  const text = rows[0]?.[0] ?? '';
  if (count === 1) return [answerOf(text, call.triesOf(0), clock)];
  const texts = text.split(',');
  // An operation without an answer gets an empty one, which decodes to an error.
  return Array.from({ length: count }, (_, position) =>
    answerOf(texts[position] ?? '', call.triesOf(position), clock),
  );
}

function answerOf(text: string, tries: number, clock: Clock): Answer<readonly Row[]> {
  if (text !== 'b') return { value: [[text]] };
  if (tries >= BUSY_TRIES_MAX)
    return { error: new StoreError('PostgreSQL: the lock stayed busy', { applied: 'no' }) };
  if (tries < BUSY_TRIES_AT_ONCE) return { retryMs: 0 };
  return { retryMs: BUSY_MS.min + clock.random() * Math.min(BUSY_MS.max, tries) };
}

function kindOf(error: unknown): FailureKind {
  const state = stateOf(error);
  if (ONE_FAILED.test(state)) return 'one';
  return TRY_AGAIN.has(state) ? 'again' : null;
}

/** Empty where the server did not answer. */
function stateOf(error: unknown): string {
  return sqlStateOf((error as { cause?: unknown }).cause) ?? '';
}
