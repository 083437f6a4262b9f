import type { Clock } from '../../clock.ts';
import { HoldfastError, StoreError } from '../../errors.ts';
import { backoff } from '../../util/backoff.ts';
import { Batch } from '../shared/batch.ts';
import type { Answer, Send } from '../shared/batch-options.ts';
import { storeClosed } from '../shared/store-closed.ts';
import { failureKind, storeError } from './client-library.ts';
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
/** How often a batch is redone when it was written to a log that another process had removed. */
const REDO_MAX = 5;

/** What an operation may use: the connection, and hooks into its transaction. */
export interface OperationContext {
  readonly db: Connection;
  /** Runs several statements as one transaction, or as a part of the one that is already open. */
  transact<T>(work: () => T): T;
  /** Runs `effect` after the commit, when other processes can see the write. */
  afterCommit(effect: () => void): void;
}

export type Operation<T> = (context: OperationContext) => T;

/**
 * Runs operations in the order in which they came; those of one tick share one transaction. Nothing
 * waits synchronously: while another process writes, or is stopped in the middle of a write, the batch
 * is retried from a timer and the event loop is free.
 */
export class Transactions {
  readonly #clock: Clock;
  readonly #path: string;
  readonly #connect: () => Connection;
  readonly #batch: Batch<Operation<unknown>, unknown>;
  #connection: Connection | null = null;
  /** How often in a row the database was busy, and when to try again. */
  #timesBusy = 0;
  #againMs = 0;
  #closed = false;

  constructor(clock: Clock, path: string, connect: () => Connection) {
    this.#clock = clock;
    this.#path = path;
    this.#connect = connect;
    this.#batch = new Batch({
      clock,
      itemsMax: OPERATIONS_MAX,
      callsMax: 1,
      sendsAtOnce: true,
      send: this.#send,
      onFailure: (error, { elapsedMs }) =>
        failureKind(error) === 'busy' && elapsedMs < BUSY_MS ? { againMs: this.#againMs } : 'fail',
      errors: {
        notSent: () => this.#givenUp('no'),
        noAnswer: () => this.#givenUp('unknown'),
        failed: (error) => this.#asStoreError(error),
      },
    });
  }

  /** Opens the database now, so that a permanent problem is reported at once. */
  open(): void {
    try {
      this.#connection ??= this.#connect();
    } catch (error) {
      if (failureKind(error) !== 'busy') throw this.#asStoreError(error);
    }
  }

  run<T>(operation: Operation<T>, signal?: AbortSignal): Promise<T> {
    if (this.#closed) return Promise.reject(storeClosed());
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

  readonly #send: Send<Operation<unknown>, unknown> = async (operations) => {
    try {
      for (let redone = 0; redone <= REDO_MAX; redone += 1) {
        this.#connection ??= this.#connect();
        const db = this.#connection;
        const effects: (() => void)[] = [];
        const answers = execute(db, operations, (effect) => effects.push(effect));
        if (db.isVisibleToOthers()) {
          for (const effect of effects) effect();
          this.#upkeep(() => db.afterBatch());
          this.#timesBusy = 0;
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
      const retry = this.#timesBusy - RETRIES_AT_ONCE;
      this.#againMs = retry < 0 ? 0 : backoff(this.#clock, retry, BUSY_RETRY);
      this.#timesBusy += 1;
      throw error;
    }
  };

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
    connection.mayNotCommit = true;
    // After most failures the next batch opens the database again: the file may have been replaced, or
    // the disk repaired. One in memory is kept: its claims exist nowhere else.
    const isPassing = ['busy', 'full'].includes(failureKind(error));
    if ((!isPassing || connection.hasFailedCommit) && !connection.isOnlyCopy) this.#drop();
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

/** A single statement commits by itself, at half the cost. Several operations are one transaction. */
function execute(
  db: Connection,
  operations: readonly Operation<unknown>[],
  afterCommit: OperationContext['afterCommit'],
): readonly Answer<unknown>[] {
  const isAlone = operations.length === 1 && !db.mayNotCommit;
  const transact = <T>(work: () => T): T => (isAlone ? db.transact(work) : work());
  const context: OperationContext = { db, afterCommit, transact };
  const answers: Answer<unknown>[] = [];
  const runAll = (): void => {
    for (const operation of operations) {
      try {
        answers.push({ value: operation(context) });
      } catch (error) {
        // A refusal concerns one operation. A failure of the database concerns the whole batch.
        if (!(error instanceof HoldfastError)) throw error;
        answers.push({ error });
      }
    }
  };
  if (isAlone) runAll();
  else db.transact(runAll);
  return answers;
}
