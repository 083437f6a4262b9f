import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import { Schema } from '../../src/stores/postgres/schema.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { postgresSubject } from '../support/conformance/postgres-subject.ts';
import { startPgbouncer } from '../support/servers/pgbouncer.ts';

/** The grants of the documentation. */
const page = readFileSync(fileURLToPath(new URL('../../docs/stores/postgres.md', import.meta.url)), 'utf8');
const grants = /```sql\n(GRANT USAGE[\s\S]*?)```/.exec(page)?.[1] ?? '';

let pooler: Server;
afterAll(async () => {
  await pooler.stop();
});

// Row 39: two clients of one server connection exclude each other, and nothing depends on a session.
const leases = postgresSubject(
  'pg.Pool',
  async (server, url) => {
    const role = `app_${process.pid}`;
    server.psql(
      url,
      `CREATE ROLE ${role} LOGIN; ${new Schema().script} ${grants.replaceAll(' app;', ` ${role};`)}`,
    );
    pooler = await startPgbouncer({ port: server.port, mode: 'transaction', poolSize: 3, users: [role] });
    return url.replace(`:${server.port}/`, `:${pooler.port}/`).replace('postgres@', `${role}@`);
  },
  { migrate: false },
);
describeConformance('PostgreSQL leases for a role with the documented grants, behind a transaction pooler', {
  ...leases,
  evictions: 'unheard',
});
