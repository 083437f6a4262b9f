import type { Clock } from '../../clock.ts';
import { HoldfastError, StoreError } from '../../errors.ts';
import { backoff } from '../../util/backoff.ts';
import { Batch } from '../shared/batch.ts';
import type { Answer, Send } from '../shared/batch-options.ts';
import { storeClosed } from '../shared/store-closed.ts';
import { failureIn, storeError } from './client-library.ts';
import type { Connection } from './connection.ts';

const OPERATIONS_MAX = 128;
/** How long a batch is retried while another process writes. After that the core decides. */
const BUSY_MS = 4_000;
/**
 * A write takes about ten microseconds, so the first retries are immediate. Later retries back off,
 * because on a busy machine the writing process needs the CPU.
 */
const RETRIES_AT_ONCE = 4;
const BUSY_RETRY = { min: 1, max: 25 };
/** The log is written back after about this many batches of all processes together. */
const BATCHES_MAX = 1_024;
/** How often a batch is redone when it was written to a log that another process had removed. */
const REDO_MAX = 5;

/** A step of the store. What it does synchronously is one step for all processes. */
export type Operation<T> = (db: Connection) => T;

/**
 * Runs operations in the order in which they came; those of one moment share a transaction. Nothing
 * waits synchronously: while another process writes, the batch is retried from a timer.
 */
export class Transactions {
  readonly #clock: Clock;
  readonly #path: string;
  readonly #connect: () => Connection;
  readonly #batch: Batch<Operation<unknown>, unknown>;
  #connection: Connection | null = null;
  /** How many batches in a row have failed, and after how many ms the batch is sent again. */
  #failures = 0;
  #againMs = 0;
  #batches: number;
  #closed = false;

  constructor(clock: Clock, path: string, connect: () => Connection) {
    this.#clock = clock;
    this.#path = path;
    this.#connect = connect;
    // Not from 0, so that many processes that live shortly write the log back as often as one.
    this.#batches = Math.floor(clock.random() * BATCHES_MAX);
    this.#batch = new Batch({
      clock,
      itemsMax: OPERATIONS_MAX,
      callsMax: 1,
      sendsAtOnce: true,
      send: this.#send,
      onFailure: (error, { elapsedMs }) =>
        failureIn(error).kind === 'busy' && elapsedMs < BUSY_MS ? { againMs: this.#againMs } : 'fail',
      errors: {
        notSent: () => this.#givenUp('no'),
        noAnswer: () => this.#givenUp('unknown'),
        failed: (error) => storeError(this.#path, error),
      },
    });
  }

  /** Opens the database now, so that a permanent problem is reported at once. */
  open(): void {
    try {
      this.#connection ??= this.#connect();
    } catch (error) {
      if (failureIn(error).kind !== 'busy') throw storeError(this.#path, error);
    }
  }

  run<T>(operation: Operation<T>, signal?: AbortSignal): Promise<T> {
    if (this.#closed) return Promise.reject(storeClosed());
    return this.#batch.add(operation, signal) as Promise<T>;
  }

  /** Refuses new operations, finishes those that came before, and closes the connection. */
  async close(last: Operation<void>): Promise<void> {
    const lastRun = this.run(last).catch(() => {});
    this.#closed = true;
    await lastRun;
    this.#drop();
  }

  readonly #send: Send<Operation<unknown>, unknown> = async (operations) => {
    try {
      for (let redone = 0; redone <= REDO_MAX; redone += 1) {
        this.#connection ??= this.#connect();
        const db = this.#connection;
        db.effects = [];
        // A single statement commits by itself, at half the cost. But libsql leaves a statement that
        // failed unfinished, and until a COMMIT succeeds, statements outside a transaction are not
        // committed.
        const isAlone = operations.length === 1 && this.#failures === 0;
        const answers = isAlone ? applyAll(db, operations) : db.transact(() => applyAll(db, operations));
        if (db.isVisibleToOthers()) {
          this.#failures = 0;
          for (const effect of db.effects) effect();
          this.#writeBack(db);
          return answers;
        }
        // No other process sees what was written. Every operation is idempotent, so the batch is
        // repeated on the file that the others use.
        this.#drop();
      }
      throw new Error('the database file is removed or replaced again and again');
    } catch (error) {
      this.#onFailure(error);
      // One delay for the whole batch. The batch would wait for the longest of several delays, which
      // is nearly constant and would not spread the processes out.
      const retry = this.#failures - RETRIES_AT_ONCE;
      this.#againMs = retry < 0 ? 0 : backoff(this.#clock, retry, BUSY_RETRY);
      this.#failures += 1;
      throw error;
    }
  };

  /** Not urgent: when another process is in the way, the next batch tries again. */
  #writeBack(db: Connection): void {
    this.#batches += 1;
    if (this.#batches < BATCHES_MAX) return;
    try {
      db.writeBack();
      this.#batches = 0;
    } catch (error) {
      this.#onFailure(error);
    }
  }

  #onFailure(error: unknown): void {
    const connection = this.#connection;
    if (connection === null || connection.path === null) return;
    // After most failures the next batch opens the database again: the file may have been replaced, or
    // the disk repaired. One in memory is kept: its claims exist nowhere else.
    const isPassing = ['busy', 'full'].includes(failureIn(error).kind);
    if (!isPassing || connection.hasFailedCommit) this.#drop();
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

  #givenUp(applied: 'no' | 'unknown'): StoreError {
    return new StoreError(`SQLite store ${this.#path}: the caller gave up`, { applied });
  }
}

function applyAll(db: Connection, operations: readonly Operation<unknown>[]): readonly Answer<unknown>[] {
  return operations.map((operation) => {
    try {
      return { value: operation(db) };
    } catch (error) {
      // A refusal concerns one operation. A failure of the database concerns the whole batch.
      if (!(error instanceof HoldfastError)) throw error;
      return { error };
    }
  });
}
