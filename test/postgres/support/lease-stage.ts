import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { createLocks, type Locks, type LocksOptions } from '../../../src/index.ts';
import type { ClaimRequest, Store } from '../../../src/store/store.ts';
import {
  type PostgresLeaseOptions,
  type PostgresPool,
  postgresLeaseStore,
} from '../../../src/stores/postgres/index.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import type { PostgresOptions } from '../../../src/torture/servers/postgres.ts';
import { eventually } from '../../redis/support/stage.ts';
import { makePool, type PgLibrary } from '../../support/clients/postgres-pools.ts';
import { type PostgresServer, startPostgres } from '../../support/servers/postgres.ts';

export interface LeaseOptions
  extends LocksOptions,
    Pick<PostgresLeaseOptions, 'schema' | 'connections' | 'migrate'> {
  readonly url?: string;
  readonly library?: PgLibrary;
  readonly pool?: PostgresPool;
}

/**
 * A PostgreSQL server with one database and a proxy in front. Closes all stores and locks it
 * opened.
 */
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

  /** How many statements with such a text the server has run, counted from the first call on. */
  async calls(like: string): Promise<number> {
    await this.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
    const [row] = await this.query(
      `SELECT coalesce(sum(calls), 0)::int AS calls FROM pg_stat_statements
        WHERE query LIKE $1 AND query NOT LIKE $2`,
      [like, '%pg_stat_statements%'],
    );
    return Number(row?.calls);
  }

  /** Resolves when this many wait for this lock, and listen. */
  async listening(name: string, count: number): Promise<void> {
    await eventually(`${count} wait for ${name} and listen`, async () => {
      const rows = await this.query(
        'SELECT 1 FROM holdfast.waiters WHERE name = $1 AND channel IS NOT NULL',
        [name],
      );
      return rows.length === count;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.proxy.pass();
    for (const close of this.#closers.reverse())
      await within(30_000, 'close of a store or of locks', close());
    // A pool of pg waits for ever for a client whose connection broke while it connected.
    await Promise.race([this.admin.end(), sleep(5_000, undefined, { ref: false })]);
    await this.proxy.stop();
    await this.server.stop();
  }
}

/** Names what hangs, before the hook of the test runs out of time. */
async function within<T>(ms: number, what: string, work: Promise<T>): Promise<T> {
  const tooLong = sleep(ms, undefined, { ref: false }).then(() => {
    throw new Error(`not within ${ms} ms: ${what}`);
  });
  return await Promise.race([work, tooLong]);
}

let count = 0;

/** A claim request with a unique id. */
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
