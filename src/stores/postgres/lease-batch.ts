import type { Clock } from '../../clock.ts';
import type { Batch } from '../shared/batch.ts';
import type { Answer, CallInfo } from '../shared/batch-options.ts';
import type { ConnectionPool } from '../shared/connection-pool.ts';
import { busyAnswer, isSingle, pooledBatch, type SingleStatement } from '../shared/pooled-batch.ts';
import type { Connection } from './connection.ts';
import type { Row, Statement } from './driver-connection.ts';
import { failures } from './failure.ts';
import { type Operation, type StatementContext, statementOf } from './lease-statement.ts';
import type { Schema } from './schema.ts';

/**
 * An operation shares a statement with others. Its result is one row with one column. A statement of its
 * own names the schema `holdfast`, whichever it is.
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

const RETRIES_MAX = 5;

/** The operations of a call are one statement. */
export function leaseBatch(options: LeaseBatchOptions): LeaseBatch {
  const { clock, schema, pool, queueMax, channel } = options;
  return pooledBatch<Connection, LeaseRequest, readonly Row[]>({
    clock,
    pool,
    async send(connection, requests, call) {
      const [single] = requests;
      if (single !== undefined && isSingle(single))
        return [{ value: await connection.run({ ...single, text: schema.sql(single.text) }) }];
      const context = { isSetUp: connection.isDirect, queueMax, channel: channel() };
      const rows = await connection.run(statementOf(schema, requests as readonly Operation[], context));
      return answersIn(rows, requests.length, call, clock);
    },
    failures,
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
    return answer === 'b' ? busyAnswer(clock, failures.label, call.triesOf(position)) : { value: [[answer]] };
  });
}
