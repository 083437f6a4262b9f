import { UnsupportedError } from '../../errors.ts';
import {
  type ConnectionOptions,
  keepAliveBy,
  LimitedConnection,
  type LimitedDriver,
  STATEMENT_MS,
  type Statement,
  type Stream,
} from '../shared/limited-connection.ts';
import { errorNumberOf, failures } from './failure.ts';

export type Row = readonly unknown[];

/** The part that is used of a mysql2 connection made here. */
export interface DriverConnection {
  readonly stream: Stream & { destroy(): void };
  promise(): {
    execute(sql: string, values: readonly (string | null)[]): Promise<readonly unknown[]>;
    query(sql: string): Promise<readonly unknown[]>;
    end(): Promise<void>;
  };
  on(event: 'error', listener: () => void): unknown;
}

/** Makes a connection like those of the user's pool or URL. It connects by itself; statements wait. */
export type ConnectionFactory = () => Promise<DriverConnection>;

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
export class Connection extends LimitedConnection<LimitedDriver> {
  readonly #library: ReturnType<DriverConnection['promise']>;

  private constructor(own: DriverConnection, options: ConnectionOptions) {
    const { stream } = own;
    const library = own.promise();
    const driver: LimitedDriver = {
      setKeepAlive: (isKept) => keepAliveBy(stream, isKept),
      close: () => library.end(),
      destroy: () => stream.destroy(),
    };
    super(driver, failures, options);
    this.#library = library;
    // No such event comes while a statement is pending: see `run`.
    own.on('error', () => this.onBroken());
  }

  /**
   * Rejects with a `StoreError` of `applied: 'no'` when there is no connection in time or the server
   * is read only, and with an `UnsupportedError` when it is too old or the library is missing.
   */
  static async open(factory: ConnectionFactory, options: ConnectionOptions): Promise<Connection> {
    const connection = new Connection(await factory(), options);
    return await connection.opened(() => connection.#setUp(options.anyServer === true));
  }

  /**
   * Runs one statement, prepared if it has values; the caller waits for its answer before it runs the
   * next. After `limitMs` the connection is given up.
   */
  async run<Answer = readonly Row[]>({ text, values }: Statement, limitMs = STATEMENT_MS) {
    if (!this.isOpen) return await this.refused();
    const library = this.#library;
    const answer = values === undefined ? library.query(text) : library.execute(text, values);
    // Before the failure is reported, so that the connection is not used again. Most versions of the
    // library do not say which errors are fatal, so every error ends the connection, except those that
    // the server reported.
    answer.catch((error: unknown) => errorNumberOf(error) === null && this.onBroken());
    const [rows] = await this.limited(answer, limitMs);
    return rows as Answer;
  }

  async #setUp(anyServer: boolean): Promise<void> {
    for (const text of SET_UP) await this.run({ text });
    if (anyServer) return;
    const [row = []] = await this.run({ text: 'SELECT VERSION(), @@GLOBAL.read_only' });
    const [version, readOnly] = row;
    if (!isSupported(String(version)))
      throw new UnsupportedError(`MySQL 8 or MariaDB 10.6 or newer is needed; this is ${String(version)}`);
    if (Number(readOnly) !== 0) throw new Error('this server is a replica, or is set to be read only');
  }
}

/** MariaDB says `10.11.6-MariaDB…`, behind some proxies with `5.5.5-` before it; MySQL `8.0.36…`. */
export function isSupported(version: string): boolean {
  const [, major, minor] = /^(?:5\.5\.5-)?(\d+)\.(\d+)/.exec(version) ?? [];
  const number = Number(major) * 100 + Number(minor);
  return number >= (/mariadb/i.test(version) ? 1_006 : 800);
}
