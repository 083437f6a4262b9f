import type { Clock, Timer } from '../../../clock.ts';
import { StoreError } from '../../../errors.ts';
import type { Connection } from '../connection.ts';
import { notSent } from '../failure.ts';
import type { Row, Statement } from '../wire.ts';
import { type Op, statementOf } from './statement.ts';

/** How many travel together at most. */
const TOGETHER_MAX = 256;
/** How often it is looked whether a statement has taken too long. */
const LOOK_EVERY_MS = 1_000;

interface Pending {
  readonly op: Op;
  readonly signal: AbortSignal | undefined;
  resolve(answer: string): void;
  reject(error: unknown): void;
}

export interface QueueOptions {
  readonly clock: Clock;
  /** How long the statement under way may take. */
  limitMs(): number;
  /** Undoes what a failed statement may have done: locks of a session outlive the statement that took them. */
  repair(ops: readonly Op[]): Promise<void>;
  /** The connection cannot be used any more, or is not the one that it was. */
  onBroken(error: StoreError): void;
}

/**
 * All that is sent over the one connection of a session: one statement at a time, since client libraries will not queue for us for ever. What comes while one is under
 * way, or in the same tick, travels with the next.
 */
export class Queue {
  readonly #connection: Connection;
  readonly #options: QueueOptions;
  #waiting: Pending[] = [];
  #others: (() => Promise<void>)[] = [];
  #isBusy = false;
  #isScheduled = false;
  #sentAtMs: number | null = null;
  #watchdog: Timer | null = null;

  constructor(connection: Connection, options: QueueOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  /** Rejects with a `StoreError`: `no` when it was not sent or was undone, else unknown. */
  add(op: Op, signal?: AbortSignal): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ op, signal, resolve, reject });
      this.#schedule();
    });
  }

  /** Some other statement, in its turn. Its first column must begin with `pg_backend_pid()`, and it must have a row. */
  run(statement: Statement): Promise<readonly Row[]> {
    return new Promise((resolve, reject) => {
      this.#others.push(() => this.send(statement).then(resolve, reject));
      this.#schedule();
    });
  }

  /** At once: only for what repairs. */
  send(statement: Statement): Promise<readonly Row[]> {
    this.#sentAtMs = this.#options.clock.monotonicMs();
    this.#watchdog ??= this.#watch(LOOK_EVERY_MS);
    return this.#connection.run(statement, null).then(
      (rows) => {
        this.#sentAtMs = null;
        return this.#checked(rows);
      },
      (error: StoreError) => {
        this.#sentAtMs = null;
        if (!this.#connection.isOpen) this.#options.onBroken(error);
        throw error;
      },
    );
  }

  /** One timer for many statements, since nearly all of them are answered long before. It stops when it finds none under way. */
  #watch(ms: number): Timer {
    return this.#options.clock.startTimer(Math.max(ms, 1), () => {
      this.#watchdog = null;
      if (this.#sentAtMs === null) return;
      const leftMs = this.#sentAtMs + this.#options.limitMs() - this.#options.clock.monotonicMs();
      if (leftMs > 0) this.#watchdog = this.#watch(Math.min(leftMs, LOOK_EVERY_MS));
      else this.#connection.destroy();
    });
  }

  /** A pooler that was not seen before has given us another session: none of our locks is in it. */
  #checked(rows: readonly Row[]): readonly Row[] {
    if (Number.parseInt(rows[0]?.[0] ?? '', 10) === this.#connection.backendId) return rows;
    const error = new StoreError('PostgreSQL: another process answers than before; is there a pooler?', {
      applied: 'unknown',
    });
    this.#options.onBroken(error);
    throw error;
  }

  /** The connection is gone: nothing that waits was sent. */
  fail(): void {
    this.#watchdog?.cancel();
    this.#watchdog = null;
    for (const { reject } of this.#waiting.splice(0)) reject(notSent('the connection was lost'));
    // These find the connection closed.
    for (const other of this.#others.splice(0)) void other();
  }

  #schedule(): void {
    if (this.#isBusy || this.#isScheduled) return;
    this.#isScheduled = true;
    // When all promises that are ready have been served: they add to it too.
    process.nextTick(this.#begin);
  }

  readonly #begin = (): void => {
    this.#isScheduled = false;
    this.#isBusy = true;
    this.#connection.setKeepAlive(true);
    this.#next();
  };

  readonly #next = (): void => {
    const other = this.#others.shift();
    if (other !== undefined) {
      void other().then(this.#next);
      return;
    }
    const batch = this.#take();
    if (batch.length > 0) {
      this.send(statementOf(batch.map(({ op }) => op))).then(
        (rows) => {
          for (const [n, pending] of batch.entries()) pending.resolve(answerOf(rows[n]));
          this.#next();
        },
        (error: unknown) => void this.#settleFailed(batch, error).then(this.#next),
      );
      return;
    }
    this.#isBusy = false;
    // A session at rest does not keep the process alive.
    this.#connection.setKeepAlive(false);
  };

  #take(): Pending[] {
    const batch: Pending[] = [];
    for (const pending of this.#waiting.splice(0, TOGETHER_MAX)) {
      if (pending.signal?.aborted === true)
        pending.reject(notSent('its time was over before it could be sent'));
      else batch.push(pending);
    }
    return batch;
  }

  /** Unlocking is what repairing comes to; all else was undone. */
  async #settleFailed(batch: readonly Pending[], error: unknown): Promise<void> {
    if (!this.#connection.isOpen) {
      for (const { reject } of batch) reject(error);
      return;
    }
    try {
      await this.#options.repair(batch.map(({ op }) => op));
      for (const { op, resolve, reject } of batch) {
        if (op.do === 'unlock' || op.do === 'leave') resolve('u');
        else reject(error);
      }
    } catch {
      const lost = new StoreError((error as Error).message, { cause: error, applied: 'unknown' });
      this.#options.onBroken(lost);
      for (const { reject } of batch) reject(lost);
    }
  }
}

/** What follows the process that gave it. */
function answerOf(row: Row | undefined): string {
  const text = row?.[0] ?? '';
  return text.slice(text.indexOf(' ') + 1);
}
