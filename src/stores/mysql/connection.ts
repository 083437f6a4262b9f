import type { Clock } from '../../clock.ts';
import { UnsupportedError } from '../../errors.ts';
import { onAbort } from '../../util/abort.ts';
import { LimitedConnection, type LimitedDriver } from '../shared/limited-connection.ts';
import { failureOf, notBegun, notSent, unanswered } from './failure.ts';

export type Value = string | number | null;
export type Row = readonly unknown[];

export interface Result {
  readonly rows: readonly Row[];
  /** How many rows the statement found to change, whether it changed them or not. */
  readonly affected: number;
  /** What the statement gave to `LAST_INSERT_ID(…)`. */
  readonly insertId: bigint;
}

type Answer = readonly Row[] | { readonly affectedRows: number | string; readonly insertId: number | string };
type Callback = (error: Error | null, answer?: Answer) => void;

/** The part that is used of a mysql2 connection made here. */
export interface DriverConnection {
  readonly stream: {
    destroy(): unknown;
    ref?(): unknown;
    unref?(): unknown;
    on(event: 'close', listener: () => void): unknown;
  };
  execute(statement: { sql: string; values: readonly Value[] }, callback: Callback): unknown;
  query(statement: { sql: string }, callback: Callback): unknown;
  end(callback: () => void): unknown;
  on(event: 'connect' | 'error', listener: (error?: Error) => void): unknown;
}

/** Makes a connection like those of the user's pool or URL. It connects by itself. */
export type Connector = () => Promise<DriverConnection>;

/** How long connecting may take. */
const CONNECT_MS = 5_000;
/** No statement of ours waits for long, so one that takes this long will never answer. */
const STATEMENT_MS = 10_000;

/** How long the server lets a statement wait for a row that another transaction has locked. */
export const LOCK_WAIT_MS = 3_000;

/**
 * Statements are transactions of their own and read what is committed, whatever the server's defaults
 * are; one that finds a row locked for longer than a moment fails; and one that would have to store
 * something else than it was given fails.
 */
const SET_UP = [
  "SET SESSION autocommit = 1, sql_mode = 'STRICT_ALL_TABLES', " +
    `innodb_lock_wait_timeout = ${LOCK_WAIT_MS / 1_000}`,
  'SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ',
];

/**
 * One connection that only this store uses. When it breaks, or when a statement takes too long, it
 * ends for good, and another has to be opened.
 */
export class Connection extends LimitedConnection<OwnDriver> {
  /**
   * Rejects with a `StoreError` of `applied: 'no'` when there is no connection in time or the server
   * is read only, and with an `UnsupportedError` when it is too old or the library is missing.
   * `anyServer`: also a server that the store cannot use, only to look at it. `signal`: ends the
   * attempt, and destroys the connection that is being opened.
   */
  static async open(
    connector: Connector,
    clock: Clock,
    onClose: () => void,
    { anyServer = false, signal }: { anyServer?: boolean; signal?: AbortSignal } = {},
  ): Promise<Connection> {
    const driver = new OwnDriver(await connector(), () => connection.end() && onClose());
    const connection = new Connection(driver, clock, { failureOf, unanswered });
    const stopListening = onAbort(signal, () => connection.destroy());
    try {
      if (signal?.aborted) throw notSent('the store is closed');
      await connection.limited(driver.connected, CONNECT_MS);
      for (const text of SET_UP) await connection.run(text);
      if (!anyServer) await connection.#checkServer();
      return connection;
    } catch (error) {
      connection.destroy();
      throw error instanceof UnsupportedError ? error : notBegun(error);
    } finally {
      stopListening();
    }
  }

  /**
   * Runs one statement, prepared if it has values; the caller waits for its answer before it runs the
   * next. After `limitMs` the connection is given up.
   */
  run(sql: string, values: readonly Value[] = [], limitMs = STATEMENT_MS): Promise<Result> {
    if (!this.isOpen) return Promise.reject(notSent('the connection is closed'));
    return this.limited(this.driver.run(sql, values), limitMs);
  }

  async #checkServer(): Promise<void> {
    const { rows } = await this.run('SELECT VERSION(), @@GLOBAL.read_only');
    const [version, readOnly] = rows[0] ?? [];
    if (!isSupported(String(version)))
      throw new UnsupportedError(`MySQL 8 or MariaDB 10.6 or newer is needed; this is ${String(version)}`);
    if (Number(readOnly) !== 0)
      throw failureOf(new Error('this server is a replica, or is set to be read only'));
  }
}

class OwnDriver implements LimitedDriver {
  readonly #connection: DriverConnection;
  readonly #onEnd: () => void;
  readonly connected: Promise<void>;

  constructor(connection: DriverConnection, onEnd: () => void) {
    this.#connection = connection;
    this.#onEnd = onEnd;
    this.connected = new Promise((resolve, reject) => {
      connection.on('connect', () => resolve());
      connection.on('error', (error) => {
        reject(error);
        onEnd();
      });
    });
    // Of a connection that breaks during a statement, only that statement is told.
    connection.stream.on('close', onEnd);
  }

  run(sql: string, values: readonly Value[]): Promise<Result> {
    return new Promise((resolve, reject) => {
      const callback: Callback = (error, answer) => {
        if (error == null) resolve(resultOf(answer));
        else {
          reject(error);
          if ((error as { fatal?: unknown }).fatal === true) this.#onEnd();
        }
      };
      if (values.length === 0) this.#connection.query({ sql }, callback);
      else this.#connection.execute({ sql, values }, callback);
    });
  }

  setKeepAlive(isKept: boolean): void {
    const { stream } = this.#connection;
    if (isKept) stream.ref?.();
    else stream.unref?.();
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => this.#connection.end(resolve));
    this.destroy();
  }

  destroy(): void {
    this.#connection.stream.destroy();
  }
}

function resultOf(answer: Answer | undefined): Result {
  if (answer === undefined || 'length' in answer) return { rows: answer ?? [], affected: 0, insertId: 0n };
  return { rows: [], affected: Number(answer.affectedRows), insertId: BigInt(answer.insertId) };
}

/** MariaDB says `10.11.6-MariaDB…`, behind some proxies with `5.5.5-` before it; MySQL `8.0.36…`. */
export function isSupported(version: string): boolean {
  const [major = 0, minor = 0] = version
    .replace(/^5\.5\.5-/, '')
    .split(/[.-]/)
    .map(Number);
  if (!/mariadb/i.test(version)) return major >= 8;
  return major > 10 || (major === 10 && minor >= 6);
}
