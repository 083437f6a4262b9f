import type { Store } from '../../../src/store/store.ts';
import { type PostgresLeaseOptions, postgresLeaseStore } from '../../../src/stores/postgres/index.ts';
import { makePool, type PgLibrary } from '../clients/postgres-pools.ts';
import { type PostgresServer, startSharedPostgres } from '../servers/postgres.ts';
import { ownDatabase, type Prepare } from './own-database.ts';

export const leaseTraits = { lifetime: 'lease', ordered: true, counting: true, remembers: true } as const;

/** What the conformance suite needs of PostgreSQL under one client library. */
export function postgresSubject(
  library: PgLibrary,
  prepare?: Prepare<PostgresServer>,
  options: PostgresLeaseOptions = {},
) {
  const url = ownDatabase(startSharedPostgres, prepare);
  return {
    traits: leaseTraits,
    open: async (more?: { queueMax?: number | undefined }): Promise<Store> =>
      postgresLeaseStore(makePool(library, url()), { ...options, ...more }),
  };
}
