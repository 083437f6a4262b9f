import type { Clock } from '../../clock.ts';
import type { Batch } from '../shared/batch.ts';
import type { Answer, CallInfo, FailedRequest, FailureVerdict } from '../shared/batch-options.ts';
import type { ConnectionPool } from '../shared/connection-pool.ts';
import { isSingle, pooledBatch } from '../shared/pooled-batch.ts';
import type { LockQueue } from '../shared/rows/lock-queue.ts';
import type { RowReading } from '../shared/rows/lock-row.ts';
import { applyOperations, type RowAccess, type RowView } from '../shared/rows/row-operations.ts';
import type { Connection } from './connection.ts';
import { errorNumberOf, failureOf, isReadOnly, notBegun } from './failure.ts';
import { type LeaseOperation, readingOf, type Statement, writtenRow } from './lease-statement.ts';
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
  /** The tables are not there any more. */
  onMissing(): void;
}

/** A column cannot be NULL: see `WRITE`. */
const CHANGED = 1048;
/** Deadlock, snapshot too old, to be prepared again: nothing was done, and the next try may succeed. */
const TRY_AGAIN = new Set([1213, 1020, 1615]);
const TRIES_MAX = 20;
/** Packet too large, data that does not fit: one operation is to blame, and nothing was done. */
const ONE_FAILED = new Set([1153, 1264, 1366, 1406, 3141]);
const MISSING = new Set([1049, 1146]);

/**
 * An operation that travels by itself is one statement where it can be; else the rows of all locks are
 * read, changed here and written back.
 */
export function leaseBatch(options: LeaseBatchOptions): LeaseBatch {
  const { clock, pool } = options;
  return pooledBatch<LeaseRequest, unknown>({
    clock,
    label: 'MySQL',
    pool,
    send: (requests, call) => send(options, requests, call),
    onFailure,
    failureOf,
  });
}

async function send(
  options: LeaseBatchOptions,
  requests: readonly LeaseRequest[],
  call: CallInfo,
): Promise<readonly Answer<unknown>[]> {
  const { pool, onMissing } = options;
  const connection = pool.take(requests.some(({ isBackground }) => isBackground !== true));
  // The answer may never come, and nothing else can be sent before it.
  call.onAbandoned = () => connection.destroy();
  try {
    const [only] = requests;
    if (only !== undefined && isSingle(only))
      return [{ value: (await connection.run(only.text, only.values)).rows }];
    const access = new LeaseAccess(options, connection);
    const answer = only === undefined || requests.length > 1 ? null : await access.runSingle(only);
    if (answer !== null) return [{ value: answer }];
    const operations = requests as readonly LeaseOperation<unknown>[];
    return await applyOperations(operations, call, { ...options, access });
  } catch (error) {
    if (MISSING.has(errorNumberOf(error) ?? 0)) onMissing();
    // The name of the server may lead to another one by now.
    if (isReadOnly(error)) pool.replaceAll();
    throw error;
  } finally {
    pool.giveBack(connection);
  }
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

  async runSingle(operation: LeaseOperation<unknown>): Promise<unknown> {
    const statement = operation.single?.(this.#statements, this.#newVersion());
    if (statement === undefined) return null;
    return operation.singleAnswer?.(await this.#connection.run(statement.text, statement.values)) ?? null;
  }

  async read(names: readonly string[]): Promise<readonly RowReading[]> {
    const json = JSON.stringify(names.map((name) => [name, null]));
    try {
      return (await this.#connection.run(this.#statements.READ, [json])).rows.map(readingOf);
    } catch (error) {
      throw notBegun(error);
    }
  }

  async write(queues: readonly LockQueue[]): Promise<boolean> {
    const versions = queues.map(() => this.#newVersion());
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

  #newVersion(): string {
    return `${Math.floor(this.#clock.random() * 2 ** 53)}`;
  }
}

function onFailure(error: unknown, { together, tries }: FailedRequest<LeaseRequest>): FailureVerdict {
  const number = errorNumberOf(error);
  if (number === null) return 'fail';
  if (ONE_FAILED.has(number) && together > 1) return 'alone';
  return TRY_AGAIN.has(number) && tries <= TRIES_MAX ? { againMs: 0 } : 'fail';
}
