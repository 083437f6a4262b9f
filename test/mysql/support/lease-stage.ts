import mysql from 'mysql2';
import type { Pool } from 'mysql2/promise';
import { createLocks, type Locks, type LocksOptions } from '../../../src/index.ts';
import type { Store } from '../../../src/store/store.ts';
import { type MysqlStoreOptions, mysqlStore } from '../../../src/stores/mysql/index.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import type { MysqlOptions } from '../../../src/torture/servers/mysql.ts';
import { type MysqlServer, startMysql } from '../../support/servers/mysql.ts';

export { request } from '../../postgres/support/lease-stage.ts';

export interface LeaseOptions extends LocksOptions {
  readonly url?: string;
  readonly store?: MysqlStoreOptions;
}

/**
 * A MariaDB of a test's own with a database for it, what connects to it, and a proxy in front. All
 * of it is closed together.
 */
export class LeaseStage implements AsyncDisposable {
  readonly server: MysqlServer;
  readonly proxy: FaultProxy;
  readonly url: string;
  /** For looking behind the API, as root. It reconnects. */
  readonly admin: Pool;
  readonly #closers: Array<() => Promise<void>> = [];

  private constructor(server: MysqlServer, proxy: FaultProxy, url: string) {
    this.server = server;
    this.proxy = proxy;
    this.url = url;
    this.admin = this.pool(url).promise();
  }

  static async start(options: MysqlOptions = {}): Promise<LeaseStage> {
    const server = await startMysql(options);
    return new LeaseStage(server, await startFaultProxy(server.port), await server.createDatabase());
  }

  get proxyUrl(): string {
    return this.url.replace(`:${this.server.port}/`, `:${this.proxy.port}/`);
  }

  get database(): string {
    return new URL(this.url).pathname.slice(1);
  }

  /** The same database for another user. */
  urlOf(user: string, url = this.url): string {
    return url.replace('//root@', `//${user}:secret@`);
  }

  pool(url = this.url): mysql.Pool {
    const pool = mysql.createPool({ uri: url, connectionLimit: 2 });
    this.#closers.push(() => pool.promise().end());
    return pool;
  }

  /** A connection with the callbacks of `mysql2`. */
  connection(url = this.url): Promise<mysql.PoolConnection> {
    const pool = this.pool(url);
    return new Promise((resolve, reject) => {
      pool.getConnection((error, connection) => (error ? reject(error) : resolve(connection)));
    });
  }

  store({ url = this.url, ...options }: MysqlStoreOptions & { readonly url?: string } = {}): Store {
    const store = mysqlStore(this.pool(url), options);
    this.#closers.push(() => store.close());
    return store;
  }

  locks({ url = this.url, store = {}, ...options }: LeaseOptions = {}): Locks {
    const locks = createLocks(this.store({ ...store, url }), { waitMs: 20_000, ...options });
    this.#closers.push(() => locks.close({ drainMs: 0 }));
    return locks;
  }

  async query<Row = Record<string, unknown>>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return (await this.admin.query(text, [...values]))[0] as Row[];
  }

  /** A user that has all rights on the database of the stage, and none beside. */
  async addUser(name: string, rights = 'ALL'): Promise<void> {
    await this.query(`CREATE USER ${name}@'%' IDENTIFIED BY 'secret'`);
    await this.query(`GRANT ${rights} ON ${this.database}.* TO ${name}@'%'`);
  }

  /** How many statements the server has run. */
  async statements(): Promise<number> {
    const [row] = await this.query<{ Value: string }>("SHOW GLOBAL STATUS LIKE 'Questions'");
    const [executed] = await this.query<{ Value: string }>("SHOW GLOBAL STATUS LIKE 'Com_stmt_prepare'");
    return Number(row?.Value) - Number(executed?.Value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.proxy.pass();
    for (const close of this.#closers.reverse()) await close().catch(() => {});
    await this.proxy.stop();
    await this.server.stop();
  }
}
