import pg from 'pg';
import { createLocks, type Locks, type LocksOptions, type Store } from '../../../src/index.ts';
import {
  type PostgresAdvisoryStoreOptions,
  postgresAdvisoryStore,
} from '../../../src/stores/postgres/advisory/advisory-store.ts';
import { type PostgresServer, startSharedPostgres } from '../../support/servers/postgres.ts';

/** Processes of ours on one database, and what the server shows of them. */
export class AdvisoryStage {
  readonly url: string;
  readonly #server: PostgresServer;
  readonly #ends: (() => Promise<unknown>)[] = [];

  constructor(server: PostgresServer, url: string) {
    this.#server = server;
    this.url = url;
  }

  /** With a server, which `stop` ends. */
  static async start(): Promise<AdvisoryStage> {
    return await AdvisoryStage.on(await startSharedPostgres());
  }

  static async on(server: PostgresServer): Promise<AdvisoryStage> {
    return new AdvisoryStage(server, await server.createDatabase());
  }

  /** As another process has it: a pool and a session of its own. */
  store(options: PostgresAdvisoryStoreOptions & { readonly url?: string } = {}): Store {
    const { url = this.url, ...rest } = options;
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    pool.on('error', () => {});
    const store = postgresAdvisoryStore(pool, rest);
    this.#ends.push(async () => {
      await store.close();
      await pool.end();
    });
    return store;
  }

  locks(
    options: LocksOptions & {
      readonly store?: PostgresAdvisoryStoreOptions & { readonly url?: string };
    } = {},
  ): Locks {
    const { store, ...rest } = options;
    const locks = createLocks(this.store(store), { waitMs: 30_000, ...rest });
    this.#ends.push(() => locks.close({ drainMs: 0 }));
    return locks;
  }

  async query<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
    const client = new pg.Client(this.url);
    await client.connect();
    try {
      return (await client.query<Row>(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  psql(script: string): string {
    return this.#server.psql(this.url, script);
  }

  /** Another program's session. */
  async foreign(name = 'billing'): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.url, application_name: name });
    client.on('error', () => {});
    await client.connect();
    this.#ends.push(() => client.end().catch(() => {}));
    return client;
  }

  /** The sessions of ours that have this lock. */
  async sessionsWith(name: string): Promise<number[]> {
    const rows = await this.query<{ pid: number }>(
      `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
        AND (classid::int8 << 32) | objid::int8 = hashtextextended($1, 0)`,
      [name],
    );
    return rows.map(({ pid }) => pid);
  }

  /** How many statements all sessions of this database run in this time, without those that ask. */
  async callsDuring(work: () => Promise<unknown>): Promise<number> {
    await this.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
    const count = async (): Promise<number> => {
      const [row] = await this.query<{ calls: string }>(
        `SELECT coalesce(sum(calls), 0) AS calls FROM pg_stat_statements
          WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND query NOT LIKE '%pg_stat_statements%'`,
      );
      return Number(row?.calls);
    };
    const before = await count();
    await work();
    return (await count()) - before;
  }

  async end(): Promise<void> {
    for (const end of this.#ends.splice(0).reverse()) await end();
  }

  /** For a stage that has started its server. */
  async stop(): Promise<void> {
    await this.#server.stop();
  }
}
