import type { Clock } from '../../clock.ts';
import { UnsupportedError } from '../../errors.ts';
import {
  keepAliveBy,
  LimitedConnection,
  type LimitedDriver,
  type OpenLimits,
  STATEMENT_MS,
  type Stream,
} from '../shared/limited-connection.ts';
import { failures } from './failure.ts';

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
  readonly stream: Stream & {
    destroy(): unknown;
    on(event: 'close', listener: () => void): unknown;
  };
  execute(statement: { sql: string; values: readonly Value[] }, callback: Callback): unknown;
  query(statement: { sql: string }, callback: Callback): unknown;
  end(callback: () => void): unknown;
  on(event: 'connect' | 'error', listener: (error?: Error) => void): unknown;
}

/** Makes a connection like those of the user's pool or URL. It connects by itself. */
export type Connector = () => Promise<DriverConnection>;

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

export interface ConnectionOptions extends OpenLimits {
  /** Also a server that the store cannot use, only to look at it. */
  readonly anyServer?: boolean;
}

/**
 * One connection that only this store uses. When it breaks, or when a statement takes too long, it
 * ends for good, and another has to be opened.
 */
export class Connection extends LimitedConnection<OwnDriver> {
  /**
   * Rejects with a `StoreError` of `applied: 'no'` when there is no connection in time or the server
   * is read only, and with an `UnsupportedError` when it is too old or the library is missing.
   */
  static async open(
    connector: Connector,
    clock: Clock,
    onClose: () => void,
    options: ConnectionOptions = {},
  ): Promise<Connection> {
    const driver = new OwnDriver(await connector(), () => connection.end() && onClose());
    const connection = new Connection(driver, clock, failures);
    return await connection.opened(async () => {
      await driver.connected;
      for (const text of SET_UP) await driver.run(text, []);
      if (options.anyServer !== true) await checkServer(driver);
    }, options);
  }

  /**
   * Runs one statement, prepared if it has values; the caller waits for its answer before it runs the
   * next. After `limitMs` the connection is given up.
   */
  run(sql: string, values: readonly Value[] = [], limitMs = STATEMENT_MS): Promise<Result> {
    return this.statement(() => this.driver.run(sql, values), limitMs);
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

  async run(sql: string, values: readonly Value[]): Promise<Result> {
    const connection = this.#connection;
    try {
      return await new Promise((resolve, reject) => {
        const callback: Callback = (error, answer) => (error ? reject(error) : resolve(resultOf(answer)));
        if (values.length === 0) connection.query({ sql }, callback);
        else connection.execute({ sql, values }, callback);
      });
    } catch (error) {
      if ((error as { fatal?: unknown }).fatal === true) this.#onEnd();
      throw error;
    }
  }

  setKeepAlive(isKept: boolean): void {
    keepAliveBy(this.#connection.stream, isKept);
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => this.#connection.end(resolve));
    this.destroy();
  }

  destroy(): void {
    this.#connection.stream.destroy();
  }
}

async function checkServer(driver: OwnDriver): Promise<void> {
  const { rows } = await driver.run('SELECT VERSION(), @@GLOBAL.read_only', []);
  const [version, readOnly] = rows[0] ?? [];
  if (!isSupported(String(version)))
    throw new UnsupportedError(`MySQL 8 or MariaDB 10.6 or newer is needed; this is ${String(version)}`);
  if (Number(readOnly) !== 0) throw new Error('this server is a replica, or is set to be read only');
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
