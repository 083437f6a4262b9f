import type { Clock } from '../../clock.ts';
import { UnsupportedError } from '../../errors.ts';
import { LimitedConnection, type OpenLimits, STATEMENT_MS } from '../shared/limited-connection.ts';
import type {
  ConnectionFactory,
  DriverConnection,
  DriverEvents,
  Row,
  Statement,
} from './driver-connection.ts';
import { failures } from './failure.ts';

export const VERSION_MIN = 12;

/** `onClose`: the connection has ended by itself. */
export interface ConnectionOptions extends Partial<DriverEvents>, OpenLimits {
  readonly clock: Clock;
  /** Also a server that the store cannot use: a standby, or an old version. Only to look at it. */
  readonly anyServer?: boolean | undefined;
}

/**
 * One connection that only this store uses. It ends when it breaks or when a statement takes too
 * long, and is never opened again.
 */
export class Connection extends LimitedConnection<DriverConnection> {
  /** The id of the server process, as the server reports it. */
  backendId = 0;
  /** Without a pooler, settings, prepared statements and LISTEN stay with this connection. */
  isDirect = false;

  /**
   * Rejects with a `StoreError` of `applied: 'no'` when it cannot connect in time or the server is a
   * standby, and with an `UnsupportedError` when PostgreSQL is older than 12 or the client library is
   * missing.
   */
  static async open(factory: ConnectionFactory, options: ConnectionOptions): Promise<Connection> {
    const { clock, onNotification = () => {}, onClose = () => {} } = options;
    const driver = factory({ onNotification, onClose: () => void (connection.end() && onClose()) });
    const connection = new Connection(driver, clock, failures);
    return await connection.opened(() => connection.#handshake(options.anyServer === true), options);
  }

  /**
   * Runs one statement. The caller waits for the answer before it runs the next one. After `limitMs`
   * the connection is destroyed; `null`: the caller limits the time itself.
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
