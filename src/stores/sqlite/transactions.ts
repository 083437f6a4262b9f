import type { Clock } from '../../clock.ts';
import { ClosedError, HoldfastError, StoreError } from '../../errors.ts';
import { backoff } from '../../util/backoff.ts';
import { Batch } from '../shared/batch.ts';
import type { Answer } from '../shared/batch-options.ts';
import { type Connection, isFatal } from './connection.ts';
import { failureKind, storeError } from './library.ts';

const OPERATIONS_MAX = 128;
/** How long a batch is retried while another process writes. After that the core decides. */
const BUSY_MS = 4_000;
/**
 * A write takes some ten microseconds, so the first retries follow at once. Later ones back off: on a
 * busy machine the process that writes needs the processor.
 */
const RETRIES_AT_ONCE = 4;
const BUSY_RETRY = { min: 1, max: 25 };
/** How often a batch is repeated that was written to a log which no other process reads. */
const REDO_MAX = 5;

/** The database as an operation sees it. */
export interface Unit {
  readonly db: Connection;
  /** Runs several statements as one transaction, or as a part of the one that is already open. */
  transact<T>(work: () => T): T;
  /** Runs once other processes can see what was written. */
  afterCommit(effect: () => void): void;
}

export type Operation<T> = (unit: Unit) => T;

/**
 * Runs operations in the order in which they came; those of one tick share one transaction. Nothing
 * waits synchronously: while another process writes, or is stopped in the middle of a write, the batch
 * is retried from a timer and the event loop is free.
 */
export class Transactions {
  readonly #path: string;
  readonly #connect: () => Connection;
  readonly #batch: Batch<Operation<unknown>, unknown>;
  #connection: Connection | null = null;
  /** How often in a row the database was busy, and when to try again. */
  #timesBusy = 0;
  #againMs = 0;
  #closed = false;

  constructor(clock: Clock, path: string, connect: () => Connection) {
    this.#path = path;
    this.#connect = connect;
    this.#batch = new Batch({
      clock,
      itemsMax: OPERATIONS_MAX,
      callsMax: 1,
      send: async (operations) => this.#attempt(operations, clock),
      onFailure: (error, { elapsedMs }) =>
        failureKind(error) === 'busy' && elapsedMs < BUSY_MS ? { againMs: this.#againMs } : 'fail',
      errors: {
        notSent: () => this.#givenUp('no'),
        noAnswer: () => this.#givenUp('unknown'),
        failed: (error) => this.#asStoreError(error),
      },
    });
  }

  /** Opens the database now, so that what can never work is found at once. */
  open(): void {
    try {
      this.#connection ??= this.#connect();
    } catch (error) {
      if (failureKind(error) !== 'busy') throw this.#asStoreError(error);
    }
  }

  run<T>(operation: Operation<T>, signal?: AbortSignal): Promise<T> {
    if (this.#closed) return Promise.reject(new ClosedError('This store is closed'));
    return this.#batch.add(operation, signal) as Promise<T>;
  }

  /** Refuses new operations, finishes those that came before, and closes the connection. */
  async close(last: Operation<void>): Promise<void> {
    if (this.#closed) return;
    const lastRun = this.run(last).catch(() => {});
    this.#closed = true;
    await lastRun;
    this.#upkeep((db) => db.writeBack());
    this.#drop();
  }

  #attempt(operations: readonly Operation<unknown>[], clock: Clock): readonly Answer<unknown>[] {
    try {
      const answers = this.#perform(operations);
      this.#timesBusy = 0;
      return answers;
    } catch (error) {
      this.#onFailure(error);
      // Chosen once for the batch: the longest of many random delays would hardly be random.
      const retry = this.#timesBusy - RETRIES_AT_ONCE;
      this.#againMs = retry < 0 ? 0 : backoff(clock, retry, BUSY_RETRY);
      this.#timesBusy += 1;
      throw error;
    }
  }

  #perform(operations: readonly Operation<unknown>[]): readonly Answer<unknown>[] {
    for (let redone = 0; ; redone += 1) {
      this.#connection ??= this.#connect();
      const db = this.#connection;
      const effects: (() => void)[] = [];
      const answers = execute(db, operations, (effect) => effects.push(effect));
      if (db.isShared()) {
        for (const effect of effects) effect();
        this.#upkeep(() => db.afterBatch());
        return answers;
      }
      // No other process sees what was written. Every operation is idempotent, so the batch is
      // repeated on the file that the others use.
      this.#drop();
      if (redone === REDO_MAX) throw new Error('the database file is removed or replaced again and again');
    }
  }

  /** Not urgent: when another process is in the way, the next batch tries again. */
  #upkeep(work: (db: Connection) => void): void {
    try {
      if (this.#connection !== null) work(this.#connection);
    } catch (error) {
      this.#onFailure(error);
    }
  }

  #onFailure(error: unknown): void {
    const connection = this.#connection;
    if (connection === null) return;
    connection.isDoubtful = true;
    // The next batch opens the database again. One in memory is kept: its claims exist nowhere else.
    if ((isFatal(error) || connection.isSpoilt) && !connection.isOnlyCopy) this.#drop();
  }

  #drop(): void {
    const connection = this.#connection;
    this.#connection = null;
    try {
      connection?.close();
    } catch {
      // Nothing more can be done for it.
    }
  }

  #asStoreError(error: unknown): HoldfastError {
    return error instanceof HoldfastError ? error : storeError(this.#path, error);
  }

  #givenUp(applied: 'no' | 'unknown'): StoreError {
    return new StoreError(`SQLite store ${this.#path}: the caller gave up`, { applied });
  }
}

function execute(
  db: Connection,
  operations: readonly Operation<unknown>[],
  afterCommit: Unit['afterCommit'],
): readonly Answer<unknown>[] {
  const [only] = operations;
  if (operations.length > 1 || only === undefined || db.isDoubtful) {
    const unit: Unit = { db, afterCommit, transact: (work) => work() };
    return db.transact(() => operations.map((operation) => answer(operation, unit)));
  }
  // A single statement commits by itself, at half the cost.
  return [answer(only, { db, afterCommit, transact: (work) => db.transact(work) })];
}

/** A refusal concerns one operation. A failure of the database concerns the whole batch. */
function answer(operation: Operation<unknown>, unit: Unit): Answer<unknown> {
  try {
    return { value: operation(unit) };
  } catch (error) {
    if (error instanceof HoldfastError) return { error };
    throw error;
  }
}
