import pg from 'pg';
import { createLocks, type Locks, type LocksOptions } from '../../../src/index.ts';
import type { ClaimRequest, Store } from '../../../src/store/store.ts';
import {
  type PostgresLeaseOptions,
  type PostgresPool,
  postgresLeaseStore,
} from '../../../src/stores/postgres/index.ts';
import { eventually } from '../../redis/support/stage.ts';
import { type FaultProxy, startFaultProxy } from '../../support/fault-proxy.ts';
import { makePool, type PgLibrary } from '../../support/postgres-subject.ts';
import { type PostgresOptions, type PostgresServer, startPostgres } from '../../support/servers/postgres.ts';

export interface LeaseOptions
  extends LocksOptions,
    Pick<PostgresLeaseOptions, 'schema' | 'connections' | 'migrate'> {
  readonly url?: string;
  readonly library?: PgLibrary;
  readonly pool?: PostgresPool;
}

/** A PostgreSQL of a test's own with a database for it, what connects to it, and a proxy in front. All of it is closed together. */
export class LeaseStage implements AsyncDisposable {
  readonly server: PostgresServer;
  readonly proxy: FaultProxy;
  readonly url: string;
  /** For looking behind the API. It reconnects. */
  readonly admin: pg.Pool;
  readonly #closers: Array<() => Promise<void>> = [];

  private constructor(server: PostgresServer, proxy: FaultProxy, url: string) {
    this.server = server;
    this.proxy = proxy;
    this.url = url;
    this.admin = new pg.Pool({ connectionString: url, max: 2 });
    this.admin.on('error', () => {});
  }

  static async start(options: PostgresOptions = {}): Promise<LeaseStage> {
    const server = await startPostgres(options);
    return new LeaseStage(server, await startFaultProxy(server.port), await server.createDatabase());
  }

  get proxyUrl(): string {
    return this.url.replace(`:${this.server.port}/`, `:${this.proxy.port}/`);
  }

  store(options: LeaseOptions = {}): Store {
    const { url = this.url, library = 'pg.Pool', pool = makePool(library, url), ...rest } = options;
    const store = postgresLeaseStore(pool, rest);
    this.#closers.push(() => store.close());
    return store;
  }

  locks(options: LeaseOptions = {}): Locks {
    const { url, library, pool, schema, connections, migrate, ...rest } = options;
    const given = Object.entries({ url, library, pool, schema, connections, migrate });
    const store = this.store(Object.fromEntries(given.filter(([, value]) => value !== undefined)));
    const locks = createLocks(store, { waitMs: 20_000, ...rest });
    this.#closers.push(() => locks.close({ drainMs: 0 }));
    return locks;
  }

  async query(text: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    return (await this.admin.query(text, [...values])).rows;
  }

  /** How many statements whose text is like that the server has run. The extension counts them from the first call on. */
  async calls(like: string): Promise<number> {
    await this.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
    const [row] = await this.query(
      'SELECT coalesce(sum(calls), 0)::int AS calls FROM pg_stat_statements WHERE query LIKE $1 AND query NOT LIKE $2',
      [like, '%pg_stat_statements%'],
    );
    return Number(row?.calls);
  }

  /** Resolves when so many wait for this lock, and listen. */
  async listening(name: string, count: number): Promise<void> {
    await eventually(`${count} wait for ${name} and listen`, async () => {
      const rows = await this.query('SELECT 1 FROM holdfast.places WHERE name = $1 AND channel IS NOT NULL', [
        name,
      ]);
      return rows.length === count;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.proxy.pass();
    for (const close of this.#closers.reverse()) await close();
    await this.admin.end();
    await this.proxy.stop();
    await this.server.stop();
  }
}

let count = 0;

/** A claim by an id that nobody else has. */
export function request(name: string, more: Partial<ClaimRequest> = {}): ClaimRequest {
  count += 1;
  const id = `test:${process.pid}:abcd#0123456789ab.${count.toString(36)}`;
  return {
    name,
    id,
    mode: { kind: 'exclusive' },
    ttlMs: 60_000,
    wait: false,
    note: '',
    fenceAbove: 0n,
    ...more,
  };
}
