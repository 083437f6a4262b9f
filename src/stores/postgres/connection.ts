import { UnsupportedError } from '../../errors.ts';
import {
  LimitedConnection,
  type LimitedDriver,
  type ConnectionOptions as LimitedOptions,
  type Statement as PlainStatement,
  STATEMENT_MS,
} from '../shared/limited-connection.ts';
import { failures, notBegun } from './failure.ts';

export const VERSION_MIN = 12;

/** Every statement selects columns of type text. */
export type Row = readonly (string | null)[];

export interface Statement extends PlainStatement {
  /** The statement is prepared under this name, unless there may be a pooler. */
  readonly name?: string | undefined;
}

export interface DriverEvents {
  onNotification(channel: string, payload: string): void;
  /** The connection has ended. It may be called again, and after `close` or `destroy`. */
  onClose(): void;
}

/** One connection of a client library. It is opened once, and never reconnects. */
export interface DriverConnection extends LimitedDriver {
  /** As the library received it: a pooler sends its own. Known after the first statement. */
  readonly processId: number | null;
  connect(): Promise<void>;
  /** One at a time. Without values, the text may have several statements; ignore the result then. */
  run(statement: Statement): Promise<readonly Row[]>;
}

/** Creates a connection with the settings of the user's pool or URL. */
export type ConnectionFactory = (events: DriverEvents) => DriverConnection;

export type ConnectionOptions = LimitedOptions & Partial<Pick<DriverEvents, 'onNotification'>>;

export class Connection extends LimitedConnection<DriverConnection> {
  /** The id of the server process, as a statement finds it. */
  backendId = 0;
  /** Without a pooler, settings, prepared statements and LISTEN stay with this connection. */
  isDirect = false;

  /**
   * Rejects with a `StoreError` of `applied: 'no'` when it cannot connect in time or the server is a
   * standby, and with an `UnsupportedError` when PostgreSQL is older than 12 or the client library is
   * missing.
   */
  static async open(factory: ConnectionFactory, options: ConnectionOptions): Promise<Connection> {
    const { onNotification = () => {} } = options;
    const onClose = (): void => connection.onBroken();
    let connection: Connection;
    try {
      connection = new Connection(factory({ onNotification, onClose }), failures, options);
    } catch (error) {
      // The settings may name a file that cannot be read.
      throw notBegun(error);
    }
    return await connection.opened(() => connection.#handshake(options.anyServer === true));
  }

  /**
   * Runs one statement; wait for its answer before the next. After `limitMs` the connection is destroyed;
   * `null`: the caller limits the time.
   */
  run(statement: Statement, limitMs: number | null = STATEMENT_MS): Promise<readonly Row[]> {
    if (!this.isOpen) return this.refused();
    const { text, values } = statement;
    // A pooler may pass the next statement to another server process, where nothing is prepared.
    return this.limited(this.driver.run(this.isDirect ? statement : { text, values }), limitMs);
  }

  async #handshake(anyServer: boolean): Promise<void> {
    await this.driver.connect();
    const text =
      "SELECT pg_backend_pid()::text, pg_is_in_recovery()::text, current_setting('server_version_num')";
    const [row] = await this.driver.run({ text });
    const [backendId = null, isStandby = null, version = null] = row ?? [];
    this.backendId = Number(backendId);
    this.isDirect = this.driver.processId === this.backendId;
    if (anyServer) return;
    if (Number(version) < VERSION_MIN * 10_000) {
      const major = Math.floor(Number(version) / 10_000);
      throw new UnsupportedError(`PostgreSQL ${VERSION_MIN} or newer is needed; this is ${major}`);
    }
    if (isStandby === 'true') throw new Error('this server is a standby and can only be read');
  }
}

/**
 * An array in PostgreSQL's text format, because client libraries write arrays differently. A quoted
 * number is a number too, where the server expects one.
 */
export function arrayOf(values: readonly (string | number | null)[]): string {
  const texts = values.map((each) =>
    typeof each === 'string' ? `"${each.replace(/["\\]/g, '\\$&')}"` : `${each}`,
  );
  return `{${texts.join()}}`;
}
