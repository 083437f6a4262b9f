import { MYSQL2 } from '../../../src/stores/mysql/client-library.ts';
import type { ConnectionFactory, DriverConnection } from '../../../src/stores/mysql/connection.ts';
import { connectionFactoryFrom } from '../../../src/stores/mysql/connection-factory.ts';
import { parseMysqlUrl } from '../../../src/stores/mysql/open.ts';
import { eventually } from '../../support/waiting/eventually.ts';
import { LeaseStage } from './lease-stage.ts';

/** A MariaDB and a replica of it, which is not semi-synchronous. */
export class ReplicatedStage implements AsyncDisposable {
  readonly primary: LeaseStage;
  readonly replica: LeaseStage;

  private constructor(primary: LeaseStage, replica: LeaseStage) {
    this.primary = primary;
    this.replica = replica;
  }

  /** `env`: of the replica. */
  static async start(env: NodeJS.ProcessEnv = {}): Promise<ReplicatedStage> {
    const settings = (id: string) => ({ 'server-id': id, 'log-bin': 'log', 'binlog-format': 'ROW' });
    const primary = await LeaseStage.start({ settings: settings('1') });
    const replica = await LeaseStage.start({ settings: { ...settings('2'), 'read-only': '1' }, env });
    const { port } = primary.server;
    await replica.server.query(
      `CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = ${port}, MASTER_USER = 'root',
        MASTER_CONNECT_RETRY = 1, MASTER_LOG_FILE = 'log.000001', MASTER_LOG_POS = 4`,
    );
    await replica.server.query('START SLAVE');
    return new ReplicatedStage(primary, replica);
  }

  /** The database of the primary, on the replica. */
  get replicaUrl(): string {
    return this.primary.url.replace(`:${this.primary.server.port}/`, `:${this.replica.server.port}/`);
  }

  /** Resolves when the replica has all that the primary has written until now. */
  async caughtUp(): Promise<void> {
    const { server } = this.primary;
    const [position] = await server.query<{ File: string; Position: number }>('SHOW MASTER STATUS');
    await eventually('the replica has it all', async () => {
      const text = 'SELECT MASTER_POS_WAIT(?, ?, 10) AS waited';
      const values = [position?.File, position?.Position];
      const [row] = await this.replica.server.query<{ waited: number | null }>(text, values);
      return row !== undefined && row.waited !== null && row.waited >= 0;
    });
  }

  /** From now on the replica receives what the primary writes, and does not apply it. */
  fallBehind(): Promise<unknown> {
    return this.replica.server.query('STOP SLAVE SQL_THREAD');
  }

  catchUp(): Promise<unknown> {
    return this.replica.server.query('START SLAVE SQL_THREAD');
  }

  /** The primary dies, and the replica takes over with what it has applied. */
  async failOver(): Promise<void> {
    this.primary.server.kill('SIGKILL');
    await this.primary.server.exited();
    await this.replica.server.query('STOP SLAVE');
    await this.replica.server.query('SET GLOBAL read_only = 0');
  }

  /** What a proxy does that sends every SELECT without a locking clause to a replica. */
  get splitting(): ConnectionFactory {
    const [writer, reader] = [this.primary.url, this.replicaUrl].map((url) =>
      connectionFactoryFrom(parseMysqlUrl(url).settings),
    );
    return async () => {
      if (writer === undefined || reader === undefined) throw new Error(`${MYSQL2.name} has no connector`);
      return split(await writer(), await reader());
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.replica[Symbol.asyncDispose]();
    await this.primary[Symbol.asyncDispose]();
  }
}

const READS = /^SELECT .* FROM holdfast_floor/s;

function split(writer: DriverConnection, reader: DriverConnection): DriverConnection {
  reader.on('error', () => {});
  const [writes, reads] = [writer.promise(), reader.promise()];
  const route = (sql: string) => (READS.test(sql) ? reads : writes);
  return {
    stream: writer.stream,
    promise: () => ({
      execute: (sql, values) => route(sql).execute(sql, values),
      query: (sql) => route(sql).query(sql),
      end: async () => void (await Promise.all([reads.end(), writes.end()])),
    }),
    on: (event, listener) => writer.on(event, listener),
  };
}
