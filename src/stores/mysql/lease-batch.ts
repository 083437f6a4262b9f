import type { Clock } from '../../clock.ts';
import type { Batch } from '../shared/batch.ts';
import type { Send } from '../shared/batch-options.ts';
import type { ConnectionPool } from '../shared/connection-pool.ts';
import { type FailureKind, isSingle, pooledBatch } from '../shared/pooled-batch.ts';
import type { Connection } from './connection.ts';
import { errorNumberOf, failureOf, isReadOnly, notBegun } from './failure.ts';
import { type LeaseOperation, readingOf, type Statement, writtenRow } from './lease-statement.ts';
import type { RowReading } from './lock-row.ts';
import { applyOperations, type RowAccess, type RowView } from './row-operations.ts';
import type { RowQueue } from './row-queue.ts';
import type { Statements } from './statements.ts';

/** A statement that goes out by itself, and whose rows are the answer. */
export interface SingleStatement extends Statement {
  readonly isBackground?: boolean;
}

export type LeaseRequest = LeaseOperation<unknown> | SingleStatement;
export type LeaseBatch = Batch<LeaseRequest, unknown>;

export interface LeaseBatchOptions {
  readonly clock: Clock;
  readonly pool: ConnectionPool<Connection>;
  readonly statements: Statements;
  readonly view: RowView;
}

/** A number is out of range: see `WRITE`. */
const CHANGED = 1690;
/** Deadlock, snapshot too old, to be prepared again: nothing was done, and the next try may succeed. */
const TRY_AGAIN = new Set([1213, 1020, 1615]);
const RETRIES_MAX = 20;
/** Packet too large, data that does not fit: one operation is to blame, and nothing was done. */
const ONE_FAILED = new Set([1153, 1264, 1366, 1406, 3141]);
const MISSING = new Set([1049, 1146]);

/**
 * An operation that travels by itself is one statement where it can be; else the rows of all locks are
 * read, changed here and written back.
 */
export function leaseBatch(options: LeaseBatchOptions): LeaseBatch {
  const { clock, pool, statements } = options;
  const send: Send<LeaseRequest, unknown> = async (requests, call) => {
    const connection = pool.take(requests.some(({ isBackground }) => isBackground !== true));
    // The answer may never come, and nothing else can be sent before it.
    call.onAbandoned = () => connection.destroy();
    try {
      const [only] = requests;
      if (only !== undefined && isSingle(only))
        return [{ value: (await connection.run(only.text, only.values)).rows }];
      const single = requests.length === 1 ? only?.single?.(statements, newVersion(clock)) : undefined;
      if (single !== undefined) {
        const answer = only?.singleAnswer?.(await connection.run(single.text, single.values)) ?? null;
        if (answer !== null) return [{ value: answer }];
      }
      const access = new LeaseAccess(options, connection);
      const operations = requests as readonly LeaseOperation<unknown>[];
      return await applyOperations(operations, call, { ...options, access });
    } catch (error) {
      if (MISSING.has(errorNumberOf(error) ?? 0)) pool.forgetSchema();
      // The name of the server may lead to another one by now.
      if (isReadOnly(error)) pool.replaceAll();
      throw error;
    } finally {
      pool.giveBack(connection);
    }
  };
  return pooledBatch<LeaseRequest, unknown>({
    clock,
    label: 'MySQL',
    pool,
    send,
    failureOf,
    kindOf,
    retriesMax: RETRIES_MAX,
  });
}

/** The statements of one call. */
class LeaseAccess implements RowAccess {
  readonly #statements: Statements;
  readonly #clock: Clock;
  readonly #connection: Connection;

  constructor({ statements, clock }: LeaseBatchOptions, connection: Connection) {
    this.#statements = statements;
    this.#clock = clock;
    this.#connection = connection;
  }

  async read(names: readonly string[]): Promise<readonly RowReading[]> {
    const json = JSON.stringify(names.map((name) => [name, null]));
    try {
      return (await this.#connection.run(this.#statements.READ, [json])).rows.map(readingOf);
    } catch (error) {
      throw notBegun(error);
    }
  }

  async write(queues: readonly RowQueue[]): Promise<boolean> {
    const versions = queues.map(() => newVersion(this.#clock));
    const rows = queues.map((queue, n) => writtenRow(queue, versions[n] ?? ''));
    try {
      await this.#connection.run(this.#statements.WRITE, [JSON.stringify(rows)]);
    } catch (error) {
      if (errorNumberOf(error) === CHANGED) return false;
      throw error;
    }
    for (const [n, queue] of queues.entries()) queue.version = versions[n] ?? null;
    return true;
  }
}

function newVersion(clock: Clock): string {
  return `${Math.floor(clock.random() * 2 ** 53)}`;
}

function kindOf(error: unknown): FailureKind {
  const number = errorNumberOf(error) ?? 0;
  if (ONE_FAILED.has(number)) return 'one';
  return TRY_AGAIN.has(number) ? 'again' : null;
}
