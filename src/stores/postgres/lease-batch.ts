import type { Clock } from '../../clock.ts';
import type { Batch } from '../shared/batch.ts';
import type { Answer, CallInfo } from '../shared/batch-options.ts';
import type { ConnectionPool } from '../shared/connection-pool.ts';
import { busyAnswer, type FailureKind, isSingle, pooledBatch } from '../shared/pooled-batch.ts';
import type { Connection } from './connection.ts';
import type { Row, Statement } from './driver-connection.ts';
import { failures, sqlStateOf } from './failure.ts';
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

const LABEL = 'PostgreSQL';
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
  return pooledBatch<Connection, LeaseRequest, readonly Row[]>({
    clock,
    label: LABEL,
    pool,
    async send(connection, requests, call) {
      const [single] = requests;
      if (single !== undefined && isSingle(single)) return [{ value: await connection.run(single) }];
      const context = { isSetUp: connection.isDirect, queueMax, channel: channel() };
      const rows = await connection.run(statementOf(schema, requests as readonly Operation[], context));
      return answersIn(rows, requests.length, call, clock);
    },
    failures,
    kindOf,
    retriesMax: RETRIES_MAX,
  });
}

function answersIn(
  rows: readonly Row[],
  count: number,
  call: CallInfo,
  clock: Clock,
): Answer<readonly Row[]>[] {
  const text = rows[0]?.[0] ?? '';
  const texts = count === 1 ? [text] : text.split(',');
  // An operation without an answer gets an empty one, which decodes to an error.
  return Array.from({ length: count }, (_, position) => {
    const answer = texts[position] ?? '';
    return answer === 'b' ? busyAnswer(clock, LABEL, call.triesOf(position)) : { value: [[answer]] };
  });
}

function kindOf(error: unknown): FailureKind {
  const state = stateOf(error);
  if (ONE_FAILED.test(state)) return 'one';
  if (MISSING.has(state)) return 'tables';
  return TRY_AGAIN.has(state) ? 'again' : null;
}

/** Empty where the server did not answer. */
function stateOf(error: unknown): string {
  return sqlStateOf((error as { cause?: unknown }).cause) ?? '';
}
