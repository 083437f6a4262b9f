import pg from 'pg';
import postgres from 'postgres';
import { afterAll, beforeAll } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import {
  type PostgresLeaseOptions,
  type PostgresPool,
  postgresLeaseStore,
} from '../../src/stores/postgres/index.ts';
import { type PostgresServer, startSharedPostgres } from './servers/postgres.ts';

export const leaseTraits = { lifetime: 'lease', ordered: true, counting: true, remembers: true } as const;

export const PG_LIBRARIES = ['pg.Pool', 'pg.Client', 'postgres.js'] as const;
export type PgLibrary = (typeof PG_LIBRARIES)[number];

/** What a user would hand to a store. Nothing is opened before it is used. */
export function makePool(library: PgLibrary, url: string): PostgresPool {
  if (library === 'pg.Pool') return new pg.Pool({ connectionString: url });
  if (library === 'pg.Client') return new pg.Client({ connectionString: url });
  return postgres(url);
}

/** What the conformance suite needs of PostgreSQL under one client library. `prepare` gives the URL to connect with. */
export function postgresSubject(
  library: PgLibrary,
  prepare: (server: PostgresServer, url: string) => Promise<string> = async (_server, url) => url,
  options: PostgresLeaseOptions = {},
) {
  let server: PostgresServer;
  let url: string;
  beforeAll(async () => {
    server = await startSharedPostgres();
    url = await prepare(server, await server.createDatabase());
  });
  afterAll(async () => {
    await server.stop();
  });
  return {
    traits: leaseTraits,
    open: async (more?: { lineMax?: number | undefined }): Promise<Store> =>
      postgresLeaseStore(makePool(library, url), { ...options, ...more }),
  };
}
