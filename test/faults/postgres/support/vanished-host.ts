import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { createLocks } from '../../../../src/index.ts';
import { postgresAdvisoryStore } from '../../../../src/stores/postgres/advisory/advisory-store.ts';
import { startPostgres } from '../../../support/servers/postgres.ts';

// Runs in a network namespace. Takes a lock over TCP, takes the network down, and prints when the holder
// learned of the loss and when the server granted the lock to a witness.
const setLink = (state: 'up' | 'down'): void =>
  void execFileSync('ip', ['link', 'set', 'lo', state], {
    env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
  });
setLink('up');
const server = await startPostgres();
const pool = new pg.Pool({ connectionString: server.url, max: 1 });
const hold = await createLocks(postgresAdvisoryStore(pool)).mutex('vanished').acquire();
const witness = new pg.Client({
  host: server.dir,
  port: server.port,
  user: 'postgres',
  database: 'postgres',
});
await witness.connect();
await sleep(3_000);
hold.assertHeld();
const downAt = performance.now();
setLink('down');
let lostAt: number | null = null;
hold.signal.addEventListener('abort', () => {
  lostAt = performance.now();
});
let freedAt: number | null = null;
while (freedAt === null && performance.now() - downAt < 30_000) {
  const { rows } = await witness.query(
    "SELECT pg_try_advisory_lock(hashtextextended('vanished', 0)) AS held",
  );
  if (rows[0].held) freedAt = performance.now();
  else await sleep(20);
}
const after = (at: number | null): number | null => (at === null ? null : at - downAt);
const { how } = (hold.signal.reason ?? {}) as { how?: string };
process.stdout.write(JSON.stringify({ lostAfterMs: after(lostAt), freedAfterMs: after(freedAt), how }));
await witness.end();
await server.stop();
process.exit(0);
