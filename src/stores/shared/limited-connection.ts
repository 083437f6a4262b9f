import type { Clock } from '../../clock.ts';
import { HoldfastError, type StoreError } from '../../errors.ts';
import type { PooledConnection } from './connection-pool.ts';

/** A connection of a client library. */
export interface LimitedDriver {
  setKeepAlive(isKept: boolean): void;
  close(): Promise<void>;
  /** Ends the connection without telling the server, at any time. */
  destroy(): void;
}

export interface ConnectionErrors {
  failureOf(error: unknown): StoreError;
  unanswered(): StoreError;
}

/** How long closing may take. */
const CLOSE_MS = 1_000;

/**
 * One connection that only the store uses. When it breaks, or when a statement takes too long, it ends
 * for good, and another has to be opened.
 */
export class LimitedConnection<Driver extends LimitedDriver> implements PooledConnection {
  protected readonly driver: Driver;
  readonly #clock: Clock;
  readonly #errors: ConnectionErrors;
  #isOpen = true;
  /** Rejects the pending statements when there will be no answer. */
  readonly #pending = new Set<(error: Error) => void>();

  constructor(driver: Driver, clock: Clock, errors: ConnectionErrors) {
    this.driver = driver;
    this.#clock = clock;
    this.#errors = errors;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Whether it keeps the process alive. */
  setKeepAlive(isKept: boolean): void {
    if (this.#isOpen) this.driver.setKeepAlive(isKept);
  }

  /** Ends the connection at once. The outcome of a pending statement is unknown. */
  destroy(): void {
    this.end();
    this.driver.destroy();
    for (const reject of this.#pending) reject(this.#errors.unanswered());
  }

  /** Closes the connection properly, within a second. Never rejects. */
  async close(): Promise<void> {
    if (!this.end()) return;
    // A caller may await this, so the process must not end.
    this.driver.setKeepAlive(true);
    try {
      await this.limited(this.driver.close(), CLOSE_MS);
    } catch {
      this.driver.destroy();
    }
  }

  /** After `limitMs` the connection is destroyed; `null`: the caller limits the time itself. */
  protected limited<T>(work: Promise<T>, limitMs: number | null): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      // A late answer could be taken for the answer of the next statement.
      const timer = limitMs === null ? null : this.#clock.startTimer(limitMs, () => this.destroy());
      const done = (): void => {
        this.#pending.delete(reject);
        timer?.cancel();
      };
      this.#pending.add(reject);
      work.then(
        (value) => {
          done();
          resolve(value);
        },
        (error: unknown) => {
          done();
          reject(error instanceof HoldfastError ? error : this.#errors.failureOf(error));
        },
      );
    });
  }

  /** No further statement is sent. Returns whether the connection was open. */
  protected end(): boolean {
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    return wasOpen;
  }
}
