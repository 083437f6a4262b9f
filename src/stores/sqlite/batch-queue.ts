import type { Clock } from '../../clock.ts';
import { ClosedError, HoldfastError, StoreError } from '../../errors.ts';
import { backoff } from '../../hold/pause.ts';
import { type Connection, isFatal } from './connection.ts';
import { failureKind, storeError } from './library.ts';

/** Operations of one tick share one transaction, at most so many. */
const BATCH_MAX = 128;
/** How long a batch is tried again while another process writes; then the core decides. */
const BUSY_MS = 4_000;
/** A write takes some ten microseconds, so the first tries follow at once. The others come ever later: on a busy machine the writer itself needs the time. */
const BUSY_AT_ONCE = 2;
const BUSY_RETRY = { min: 1, max: 25 };
/** How often a batch that went into a log which nobody else reads is done again. */
const REDO_MAX = 5;

/** What an operation is given: the connection, whether it is inside a transaction, and a list for what to do after the commit. */
export interface Unit {
  readonly db: Connection;
  /** Runs several statements as one. Free of charge inside a transaction. */
  transact<T>(work: () => T): T;
  /** To be done once the result is safe. */
  after(effect: () => void): void;
}

interface Entry {
  readonly work: (unit: Unit) => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  readonly signal: AbortSignal | undefined;
}

type Result = { readonly value: unknown } | { readonly error: HoldfastError };

/**
 * Runs operations in the order they came, those of one tick together. Nothing waits synchronously: while another process writes, or is stopped in the middle of
 * a write, the batch is tried again from a timer and the event loop is free.
 */
export class BatchQueue {
  readonly #clock: Clock;
  readonly #path: string;
  readonly #connect: () => Connection;
  readonly #tidy: (db: Connection) => void;
  #connection: Connection | null = null;
  #waiting: Entry[] = [];
  #running = false;
  #closed = false;
  #idle: (() => void) | null = null;

  /** @param tidy removes what nobody needs any more, before the log is written back. */
  constructor(clock: Clock, path: string, connect: () => Connection, tidy: (db: Connection) => void) {
    this.#clock = clock;
    this.#path = path;
    this.#connect = connect;
    this.#tidy = tidy;
  }

  /** Opens the database now, so that what can never work is found out at once. */
  open(): void {
    try {
      this.#connection ??= this.#connect();
    } catch (error) {
      if (failureKind(error) !== 'busy') throw asStoreError(this.#path, error);
    }
  }

  submit<T>(work: (unit: Unit) => T, signal?: AbortSignal): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#closed) return reject(new ClosedError('This store is closed'));
      this.#waiting.push({ work, resolve: resolve as (value: unknown) => void, reject, signal });
      if (this.#running) return;
      this.#running = true;
      queueMicrotask(this.#next);
    });
  }

  /** Refuses new operations, finishes those that came before, and closes the connection. */
  async close(last: (unit: Unit) => void): Promise<void> {
    if (this.#closed) return;
    const leave = this.submit(last).catch(() => {});
    this.#closed = true;
    await leave;
    if (this.#running) await new Promise<void>((resolve) => (this.#idle = resolve));
    this.#upkeep((db) => db.upkeep(() => {}));
    this.#drop();
  }

  readonly #next = (): void => {
    const batch = this.#waiting.length <= BATCH_MAX ? this.#waiting : this.#waiting.slice(0, BATCH_MAX);
    this.#waiting = this.#waiting.length <= BATCH_MAX ? [] : this.#waiting.slice(BATCH_MAX);
    if (batch.length === 0) this.#rest();
    else this.#attempt(batch, 0, this.#clock.monotonicMs());
  };

  #rest(): void {
    this.#running = false;
    this.#idle?.();
  }

  #attempt(batch: readonly Entry[], tries: number, startedMs: number): void {
    const wanted = batch.filter((entry) => entry.signal?.aborted !== true);
    for (const entry of batch) if (!wanted.includes(entry)) entry.reject(gaveUp(this.#path));
    try {
      this.#perform(wanted);
    } catch (error) {
      if (isFatal(error) || this.#connection?.isSpoilt === true) this.#reopen();
      if (failureKind(error) === 'busy' && this.#clock.monotonicMs() - startedMs < BUSY_MS) {
        this.#later(tries, () => this.#attempt(wanted, tries + 1, startedMs));
        return;
      }
      const failure = asStoreError(this.#path, error);
      for (const entry of wanted) entry.reject(failure);
    }
    if (this.#waiting.length > 0) queueMicrotask(this.#next);
    else this.#rest();
  }

  /** Keeps the process alive: somebody waits for the answer. */
  #later(tries: number, again: () => void): void {
    if (tries < BUSY_AT_ONCE) {
      setImmediate(again);
      return;
    }
    const delayMs = backoff(this.#clock, tries - BUSY_AT_ONCE, BUSY_RETRY);
    this.#clock.startTimer(delayMs, again, { keepAlive: true });
  }

  #perform(batch: readonly Entry[]): void {
    if (batch.length === 0) return;
    for (let redone = 0; ; redone += 1) {
      this.#connection ??= this.#connect();
      const db = this.#connection;
      const effects: (() => void)[] = [];
      const results = this.#execute(db, batch, effects);
      if (db.isShared()) {
        this.#settle(batch, results, effects);
        this.#upkeep(() => db.afterBatch(() => this.#tidy(db)));
        return;
      }
      // What was written is seen by nobody. Done again where the others are: every operation may be repeated.
      this.#drop();
      if (redone === REDO_MAX) throw new Error('the database file is removed or replaced again and again');
    }
  }

  #execute(db: Connection, batch: readonly Entry[], effects: (() => void)[]): Result[] {
    const after = (effect: () => void): void => {
      effects.push(effect);
    };
    const [only] = batch;
    if (batch.length === 1 && only !== undefined && !db.isDoubtful) {
      try {
        return [perform(only, { db, after, transact: (work) => db.transact(work) })];
      } catch (error) {
        db.doubt();
        throw error;
      }
    }
    const unit: Unit = { db, after, transact: (work) => work() };
    return db.transact(() => batch.map((entry) => perform(entry, unit)));
  }

  #settle(batch: readonly Entry[], results: readonly Result[], effects: readonly (() => void)[]): void {
    for (const [index, entry] of batch.entries()) {
      const result = results[index];
      if (result === undefined) continue;
      if ('error' in result) entry.reject(result.error);
      else entry.resolve(result.value);
    }
    for (const effect of effects) effect();
  }

  /** Not urgent: when another process is in the way, it is tried again after the next batch. */
  #upkeep(work: (db: Connection) => void): void {
    try {
      if (this.#connection !== null) work(this.#connection);
    } catch (error) {
      if (isFatal(error)) this.#reopen();
    }
  }

  /** The next batch opens the database anew. One in memory stays: with it would go what others hold. */
  #reopen(): void {
    if (this.#connection?.isOnlyCopy !== true) this.#drop();
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
}

/** A refusal of ours is the result of one operation; a failure of the database is that of the whole batch. */
function perform(entry: Entry, unit: Unit): Result {
  try {
    return { value: entry.work(unit) };
  } catch (error) {
    if (error instanceof HoldfastError) return { error };
    throw error;
  }
}

function asStoreError(path: string, error: unknown): HoldfastError {
  return error instanceof HoldfastError ? error : storeError(path, error);
}

function gaveUp(path: string): StoreError {
  return new StoreError(`SQLite store ${path}: nobody waited for it any more`, { applied: 'no' });
}
