import type { Clock } from '../../clock.ts';
import { ClosedError, StoreError, UnsupportedError } from '../../errors.ts';
import { failureOf, notBegun, notSent } from './failure.ts';
import type { Dial, Hearing, Row, Statement, Wire } from './wire.ts';

/** How long to try to connect. */
const CONNECT_MS = 5_000;
/** No statement of ours waits for anything, so one that takes this long will never answer. */
const STATEMENT_MS = 10_000;
/** How long a goodbye may take. */
const CLOSE_MS = 1_000;
const VERSION_MIN = 12;

export interface ConnectionOptions extends Partial<Hearing> {
  readonly clock: Clock;
  /** Only the time that it waits for us is bounded; a connection that comes later is closed. */
  readonly connectMs?: number | undefined;
}

/**
 * One connection to the server that is ours alone. When it breaks, or when a statement takes too long, it ends for good: whoever wants to go on opens another.
 */
export class Connection {
  readonly #wire: Wire;
  readonly #clock: Clock;
  #isOpen = true;
  /** What waits for an answer, to be told when there will be none. */
  readonly #pending = new Set<(error: Error) => void>();
  #last: Promise<unknown> = Promise.resolve();
  #queued = 0;
  /** The server's process that serves it, as the server itself says. */
  backendId = 0;
  /** Nobody stands between: what is set, prepared or listened to here stays here. */
  isDirect = false;

  private constructor(wire: Wire, clock: Clock) {
    this.#wire = wire;
    this.#clock = clock;
  }

  /**
   * Rejects with a `StoreError` of `applied: 'no'` when there is no connection in time or the server is a standby, and with an `UnsupportedError` when it is
   * older than PostgreSQL 12 or the client library is missing.
   */
  static async open(dial: Dial, options: ConnectionOptions): Promise<Connection> {
    const { clock, onNotification = () => {}, onClose = () => {} } = options;
    let connection: Connection | null = null;
    const wire = dial({
      onNotification,
      onClose(reason) {
        if (connection === null || connection.#end()) onClose(reason);
      },
    });
    connection = new Connection(wire, clock);
    try {
      await connection.#limited(connection.#hello(), options.connectMs ?? CONNECT_MS);
      return connection;
    } catch (error) {
      connection.destroy();
      if (error instanceof UnsupportedError) throw error;
      throw notBegun(error);
    }
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * Runs one statement when those before it are done. `limitMs` counts from when it is sent; after that the connection is given up. `null`: whoever runs it sees to that.
   */
  run(statement: Statement, limitMs: number | null = STATEMENT_MS): Promise<readonly Row[]> {
    if (this.#pending.size === 0 && this.#queued === 0) return this.#send(statement, limitMs);
    this.#queued += 1;
    const result = this.#last.then(() => {
      this.#queued -= 1;
      return this.#send(statement, limitMs);
    });
    this.#last = result.catch(() => {});
    return result;
  }

  /** Whether it keeps the process alive. */
  setKeepAlive(isKept: boolean): void {
    if (this.#isOpen) this.#wire.setKeepAlive(isKept);
  }

  /** Ends it at once. What is under way is rejected as unknown. */
  destroy(): void {
    this.#end();
    this.#wire.destroy();
    for (const reject of this.#pending) reject(unanswered());
  }

  /** Says goodbye, for a bounded time. Never rejects. */
  async close(): Promise<void> {
    if (!this.#end()) return;
    // Somebody may await this: the process must not end before it.
    this.#wire.setKeepAlive(true);
    try {
      await this.#limited(this.#wire.close(), CLOSE_MS);
    } catch {
      this.#wire.destroy();
    }
  }

  async #hello(): Promise<void> {
    await this.#wire.connect();
    const text =
      "SELECT pg_backend_pid()::text, pg_is_in_recovery()::text, current_setting('server_version_num')";
    const [row] = await this.#wire.run({ text });
    const [backendId = null, isStandby = null, version = null] = row ?? [];
    if (Number(version) < VERSION_MIN * 10_000) {
      const major = Math.floor(Number(version) / 10_000);
      throw new UnsupportedError(`PostgreSQL ${VERSION_MIN} or newer is needed; this is ${major}`);
    }
    if (isStandby === 'true') throw failureOf(new Error('this server is a standby, which can only be read'));
    this.backendId = Number(backendId);
    this.isDirect = this.#wire.processId === this.backendId;
  }

  #send(statement: Statement, limitMs: number | null): Promise<readonly Row[]> {
    if (!this.#isOpen) return Promise.reject(notSent('the connection is closed'));
    const { text, values } = statement;
    const sent = this.#wire.run(this.isDirect ? statement : { text, values });
    const result = this.#limited(sent, limitMs);
    if (this.#queued === 0) this.#last = result.catch(() => {});
    return result;
  }

  #limited<T>(work: Promise<T>, limitMs: number | null): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      // It may answer later, and then nobody would know to which statement.
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
          reject(error instanceof UnsupportedError ? error : failureOf(error));
        },
      );
    });
  }

  #end(): boolean {
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    return wasOpen;
  }
}

function unanswered(): StoreError {
  return new StoreError('PostgreSQL did not answer within the time limit', { applied: 'unknown' });
}

export function closed(): ClosedError {
  return new ClosedError('This store is closed');
}
