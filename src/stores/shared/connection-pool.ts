import type { Clock, Timer } from '../../clock.ts';
import { type HoldfastError, UnsupportedError } from '../../errors.ts';
import { onAbort } from '../../util/abort.ts';
import { backoff } from '../../util/backoff.ts';
import type { LimitedConnection, LimitedDriver, StatementRunner } from './limited-connection.ts';
import type { MigratedSchema } from './migrated-schema.ts';
import { storeClosed } from './store-closed.ts';

export type PooledConnection = StatementRunner &
  Pick<LimitedConnection<LimitedDriver>, 'isOpen' | 'setKeepAlive' | 'destroy' | 'close'>;

export interface ConnectionPoolOptions<Connection extends StatementRunner> {
  readonly clock: Clock;
  /** The most connections at a time. */
  readonly max: number;
  readonly schema: Pick<MigratedSchema<Connection>, 'migrates' | 'isMigrated' | 'migrate' | 'missing'>;
  /** `onClose`: the connection has ended by itself. `signal`: ends the attempt. */
  connect(onClose: () => void, signal: AbortSignal): Promise<Connection>;
  /** Makes a connection ready for statements. */
  setUp?(connection: Connection): Promise<void>;
  /** What requests are rejected with when no connection can be opened. None of them was sent. */
  notBegun(error: unknown): HoldfastError;
}

/** An unused connection is closed after this time. */
export const IDLE_MS = 30_000;
/**
 * After a failure to connect, requests wait this long for the next try: many callers must not make
 * as many tries.
 */
const RETRY_MS = { min: 50, max: 500 };

/**
 * The connection pool for a store's statements. It has no queue of its own: the store's batch takes
 * a free connection, or is called back when one becomes free. Another connection is opened only
 * when all open ones are busy.
 */
export class ConnectionPool<Connection extends PooledConnection> {
  readonly #options: ConnectionPoolOptions<Connection>;
  readonly #free: Connection[] = [];
  readonly #all = new Set<Connection>();
  /** To be closed instead of being used again. */
  readonly #stale = new Set<Connection>();
  #isMigrated = false;
  #opening = 0;
  /** Aborts when the pool closes: a silent server may keep a connection opening for seconds. */
  readonly #closing = new AbortController();
  #failures = 0;
  #retryTimer: Timer | null = null;
  #onFree: ((refusal: HoldfastError | null) => void) | null = null;
  #isClosed = false;
  #idleTimer: Timer | null = null;

  constructor(options: ConnectionPoolOptions<Connection>) {
    this.#options = options;
  }

  get hasFree(): boolean {
    return this.#free.length > 0;
  }

  /**
   * Calls back once, when a connection is free, or with the reason why there is none. The last
   * callback given counts.
   */
  whenFree(callback: (refusal: HoldfastError | null) => void): void {
    if (this.#isClosed) callback(storeClosed());
    else {
      this.#onFree = callback;
      this.#openAnother();
    }
  }

  /**
   * A free connection. `keepAlive`: a caller waits for its answer, so the process must not end
   * before.
   */
  take(keepAlive: boolean): Connection {
    const connection = this.#free.pop();
    if (connection === undefined) throw new Error('no connection is free');
    if (keepAlive) connection.setKeepAlive(true);
    return connection;
  }

  giveBack(connection: Connection): void {
    if (this.#isClosed || !connection.isOpen || this.#stale.delete(connection)) {
      this.#remove(connection);
      void connection.close();
      return;
    }
    connection.setKeepAlive(false);
    this.#free.push(connection);
    this.#callBack(null);
    // The request that it was opened for may have been given up meanwhile.
    if (this.#free.length > 0) this.#closeIdleLater();
  }

  assertOpen(): void {
    if (this.#isClosed) throw storeClosed();
  }

  /** The schema was dropped or replaced: the next connection checks it again. */
  forgetSchema(): void {
    this.#isMigrated = false;
    this.replaceAll();
  }

  /**
   * Replaces all open connections: the server or its schema is not the one that they were opened
   * for.
   */
  replaceAll(): void {
    for (const connection of this.#all) this.#stale.add(connection);
    for (const connection of this.#free.splice(0)) this.giveBack(connection);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#free.length = 0;
    this.#closing.abort();
    this.#idleTimer?.cancel();
    this.#retryTimer?.cancel();
    this.#callBack(storeClosed());
    await Promise.all([...this.#all].map((connection) => connection.close()));
    this.#all.clear();
  }

  #callBack(refusal: HoldfastError | null): void {
    const callback = this.#onFree;
    this.#onFree = null;
    callback?.(refusal);
  }

  #openAnother(): void {
    const count = this.#all.size + this.#opening;
    if (count < this.#options.max && this.#retryTimer === null) void this.#open();
  }

  async #open(): Promise<void> {
    this.#opening += 1;
    const { clock, connect, notBegun } = this.#options;
    try {
      let connection: Connection | null = null;
      connection = await connect(() => connection !== null && this.#remove(connection), this.#closing.signal);
      await this.#prepare(connection);
      this.#opening -= 1;
      this.#failures = 0;
      this.#all.add(connection);
      this.giveBack(connection);
    } catch (error) {
      this.#opening -= 1;
      if (this.#isClosed) return;
      // A renewal may be all that waits for it, so it does not keep the process alive. For a user's
      // call, the core does.
      this.#retryTimer ??= clock.startTimer(backoff(clock, this.#failures++, RETRY_MS), () => {
        this.#retryTimer = null;
        if (this.#onFree !== null) this.#openAnother();
      });
      // A busy connection may become free, but it may also be busy for long.
      const mayBecomeFree = this.#all.size > this.#free.length;
      if (!mayBecomeFree) this.#callBack(error instanceof UnsupportedError ? error : notBegun(error));
    }
  }

  async #prepare(connection: Connection): Promise<void> {
    const { schema, setUp } = this.#options;
    const stopListening = onAbort(this.#closing.signal, () => connection.destroy());
    try {
      if (!this.#isMigrated && !(await schema.isMigrated(connection))) {
        if (!schema.migrates) throw schema.missing();
        await schema.migrate(connection);
      }
      this.#isMigrated = true;
      await setUp?.(connection);
    } catch (error) {
      connection.destroy();
      throw error;
    } finally {
      stopListening();
    }
  }

  #remove(connection: Connection): void {
    this.#all.delete(connection);
    this.#stale.delete(connection);
    const at = this.#free.indexOf(connection);
    if (at >= 0) this.#free.splice(at, 1);
    if (this.#onFree !== null && !this.#isClosed) this.#openAnother();
  }

  #closeIdleLater(): void {
    this.#idleTimer?.cancel();
    this.#idleTimer = this.#options.clock.startTimer(IDLE_MS, () => {
      for (const connection of this.#free.splice(0)) {
        this.#all.delete(connection);
        void connection.close();
      }
    });
  }
}
