import { afterAll, afterEach, beforeAll, describe } from 'vitest';
import { createLocks, type Locks } from '../../../src/index.ts';
import { postgresAdvisoryStore } from '../../../src/stores/postgres/advisory/advisory-store.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { AdvisoryStage } from '../../postgres/support/advisory-stage.ts';
import { makePool } from '../../support/clients/postgres-pools.ts';
import { type PostgresServer, startPostgres } from '../../support/servers/postgres.ts';
import { describeOutage } from './support/outage-cases.ts';

let server: PostgresServer;
let stage: AdvisoryStage;
let proxy: FaultProxy;
const opened: Locks[] = [];

beforeAll(async () => {
  server = await startPostgres();
  stage = await AdvisoryStage.on(server);
  proxy = await startFaultProxy(server.port);
  await stage.query('CREATE EXTENSION pg_stat_statements');
});
afterEach(async () => {
  proxy.pass();
  for (const locks of opened.splice(0)) await locks.close({ drainMs: 0 });
});
afterAll(async () => {
  await stage?.end();
  await proxy?.stop();
  await server?.stop();
});

describe('advisory locks on a server that is out of reach', () => {
  describeOutage({
    proxy: () => proxy,
    failsFast: true,
    open(library) {
      const url = new URL(stage.url);
      url.port = String(proxy.port);
      const store = postgresAdvisoryStore(makePool(library, url.href));
      const locks = createLocks(store);
      opened.push(locks);
      return { store, locks };
    },
    // Each operation is a row of its statement, and only statements that claim ask for the time.
    async sentClaims() {
      const [row] = await stage.query<{ rows: string }>(
        `SELECT coalesce(sum(rows), 0) AS rows FROM pg_stat_statements
          WHERE query LIKE 'SELECT pg_backend_pid() ||%pg_try_advisory_lock%clock_timestamp%'`,
      );
      return Number(row?.rows);
    },
  });
});
