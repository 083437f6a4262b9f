import type { Clock } from '../../clock.ts';
import { HoldfastError, UnsupportedError } from '../../errors.ts';
import { onAbort } from '../../util/abort.ts';
import type { Failures } from './server-failure.ts';

export interface Statement {
  readonly text: string;
  readonly values?: readonly (string | null)[] | undefined;
}

export interface StatementRunner {
  run(statement: Statement): Promise<readonly (readonly unknown[])[]>;
}

/** A connection of a client library. */
export interface LimitedDriver {
  setKeepAlive(isKept: boolean): void;
  close(): Promise<void>;
  /** Ends the connection without telling the server, at any time. */
  destroy(): void;
}

/** The socket of a connection, as far as the runtime has one. */
export interface Stream {
  ref?(): unknown;
  unref?(): unknown;
}

export function keepAliveBy(stream: Stream | undefined, isKept: boolean): void {
  if (isKept) stream?.ref?.();
  else stream?.unref?.();
}

/** How long connecting may take, and closing. */
const CONNECT_MS = 5_000;
const CLOSE_MS = 1_000;
/** None of a store's statements waits for long, so one without an answer by then has failed. */
export const STATEMENT_MS = 10_000;

export interface ConnectionOptions {
  readonly clock: Clock;
  /** The connection has ended by itself. */
  readonly onClose?: (() => void) | undefined;
  /** How long opening may take. Default 5 s. */
  readonly connectMs?: number | undefined;
  /** Ends the attempt, and destroys the connection that is being opened. */
  readonly signal?: AbortSignal | undefined;
  /** Also a server that the store cannot use: read only, or of an old version. Only to look at it. */
  readonly anyServer?: boolean | undefined;
}

/**
 * One connection that only the store uses. When it breaks, or when a statement takes too long, it ends
 * for good, and another has to be opened.
 */
export class LimitedConnection<Driver extends LimitedDriver> {
  protected readonly driver: Driver;
  readonly #options: ConnectionOptions;
  readonly #errors: Failures;
  #isOpen = true;
  /** Rejects the pending statements when there will be no answer. */
  readonly #pending = new Set<(error: Error) => void>();

  constructor(driver: Driver, errors: Failures, options: ConnectionOptions) {
    this.driver = driver;
    this.#errors = errors;
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * Resolves when `handshake` does. Else it destroys the connection, and rejects with an
   * `UnsupportedError` of the handshake or with a `StoreError` of `applied: 'no'`.
   */
  protected async opened(handshake: () => Promise<void>): Promise<this> {
    const { connectMs = CONNECT_MS, signal } = this.#options;
    const stopListening = onAbort(signal, () => this.destroy());
    try {
      if (signal?.aborted) throw this.#errors.notSent('the attempt to connect was ended');
      await this.limited(handshake(), connectMs);
      return this;
    } catch (error) {
      this.destroy();
      throw error instanceof UnsupportedError ? error : this.#errors.notBegun(error);
    } finally {
      stopListening();
    }
  }

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
    } catch {}
    this.driver.destroy();
  }

  /** The answer to a statement on a connection that has ended. */
  protected refused(): Promise<never> {
    return Promise.reject(this.#errors.notSent('the connection is closed'));
  }

  /** After `limitMs` the connection is destroyed; `null`: the caller limits the time itself. */
  protected limited<T>(work: Promise<T>, limitMs: number | null): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const { clock } = this.#options;
      // A late answer could be taken for the answer of the next statement.
      const timer = limitMs === null ? null : clock.startTimer(limitMs, () => this.destroy());
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

  /** The connection has ended by itself. It may be called again, and after `close` or `destroy`. */
  protected onBroken(): void {
    if (this.end()) this.#options.onClose?.();
  }

  /** No further statement is sent. Returns whether the connection was open. */
  protected end(): boolean {
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    return wasOpen;
  }
}
