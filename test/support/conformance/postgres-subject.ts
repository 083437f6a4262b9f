import { afterAll, beforeAll } from 'vitest';
import type { Store } from '../../../src/store/store.ts';
import { type PostgresLeaseOptions, postgresLeaseStore } from '../../../src/stores/postgres/index.ts';
import { makePool, type PgLibrary } from '../clients/postgres-pools.ts';
import { type PostgresServer, startSharedPostgres } from '../servers/postgres.ts';

export const leaseTraits = { lifetime: 'lease', ordered: true, counting: true, remembers: true } as const;

/**
 * What the conformance suite needs of PostgreSQL under one client library. `prepare` resolves to the
 * URL to connect with.
 */
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
    open: async (more?: { queueMax?: number | undefined }): Promise<Store> =>
      postgresLeaseStore(makePool(library, url), { ...options, ...more }),
  };
}
