import pg from 'pg';
import postgres from 'postgres';
import { afterAll, beforeAll } from 'vitest';
import { postgresAdvisoryStore } from '../../src/stores/postgres/advisory/advisory-store.ts';
import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { type PostgresServer, startSharedPostgres } from '../support/servers/postgres.ts';

const traits = { lifetime: 'session', ordered: false, counting: false, remembers: false } as const;

let server: PostgresServer;
let pool: pg.Pool;
let sql: postgres.Sql;
beforeAll(async () => {
  server = await startSharedPostgres();
  const url = await server.createDatabase();
  pool = new pg.Pool({ connectionString: url });
  sql = postgres(url);
}, 120_000);
afterAll(async () => {
  await pool?.end();
  await sql?.end();
  await server?.stop();
});

describeConformance('postgresAdvisoryStore (pg)', {
  traits,
  open: async (options) => postgresAdvisoryStore(pool, options),
});
describeConformance('postgresAdvisoryStore (postgres.js)', {
  traits,
  open: async (options) => postgresAdvisoryStore(sql, options),
});
