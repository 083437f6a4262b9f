import pg from 'pg';
import { createLocks } from '../../../../src/index.ts';
import { bindFence, postgresLeaseStore } from '../../../../src/stores/postgres/index.ts';

// Holds a lease. Its parent pauses it before or after it binds its fence. Then it writes as if nothing
// had happened.
const [url, when] = process.argv.slice(2);
const pool = new pg.Pool({ connectionString: url });
const locks = createLocks(postgresLeaseStore(pool));
const hold = await locks.mutex('orders').acquire({ ttlMs: 4_000 });
const client = new pg.Client(url);
client.on('error', () => {});
await client.connect();
await client.query('BEGIN');
if (when === 'bound') await bindFence(client, hold);

const resumed = new Promise<void>((resolve) => process.once('message', () => resolve()));
process.send?.({ say: 'ready', fence: String(hold.fence) });
await resumed;
let refusal = 'none';
try {
  if (when !== 'bound') await bindFence(client, hold);
  await client.query("INSERT INTO orders VALUES ('late')");
  await client.query('COMMIT');
} catch (error) {
  refusal = String((error as { code?: unknown }).code ?? error);
}
process.send?.({ say: 'done', refusal, isLost: hold.remainingMs === 0 });
await locks.close({ drainMs: 0 });
await pool.end();
await client.end().catch(() => {});
process.disconnect?.();
