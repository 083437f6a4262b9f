import pg from 'pg';
import postgres from 'postgres';
import type { PostgresPool } from '../../../src/stores/postgres/index.ts';

export const PG_LIBRARIES = ['pg.Pool', 'pg.Client', 'postgres.js'] as const;
export type PgLibrary = (typeof PG_LIBRARIES)[number];

/** What a user would pass to a store. It connects when it is used first. */
export function makePool(library: PgLibrary, url: string): PostgresPool {
  if (library === 'pg.Pool') return new pg.Pool({ connectionString: url });
  if (library === 'pg.Client') return new pg.Client({ connectionString: url });
  return postgres(url);
}
