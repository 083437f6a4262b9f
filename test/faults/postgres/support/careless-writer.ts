import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { postgresFenceGate } from '../../../../src/fence/index.ts';
import { createLocks } from '../../../../src/index.ts';
import { postgresLeaseStore } from '../../../../src/stores/postgres/index.ts';

// Takes a lease and writes repeatedly, without checking that it still holds the lease. When a write is
// refused, it takes the next lease. Only the gate can refuse a late write.
const [url, name] = process.argv.slice(2);
const locks = createLocks(postgresLeaseStore(new pg.Pool({ connectionString: url })), {
  ttlMs: 1_000,
  waitMs: 30_000,
});
let isOver = false;
process.once('message', () => {
  isOver = true;
});

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(url);
  client.on('error', () => {});
  await client.connect();
  return client;
}

let client = await connect();
while (!isOver) {
  const hold = await locks.mutex('ledger').acquire();
  try {
    while (!isOver) {
      await client.query('BEGIN');
      await postgresFenceGate(client).check('ledger', hold.fence);
      await client.query('INSERT INTO ledger (fence, writer) VALUES ($1, $2)', [hold.fence, name]);
      await client.query('COMMIT');
      process.send?.({ say: 'wrote', fence: String(hold.fence) });
      // Much longer than a write takes, so that most pauses fall between two of them.
      await sleep(100);
    }
  } catch (error) {
    process.send?.({
      say: 'refused',
      fence: String(hold.fence),
      code: String((error as { code?: unknown }).code ?? error),
      isLost: hold.remainingMs === 0 && hold.signal.aborted,
    });
    await client.end().catch(() => {});
    client = await connect();
  }
  const isReleased = await hold.release().catch(() => false);
  if (hold.signal.aborted && isReleased) process.send?.({ say: 'released what was lost' });
}
await locks.close();
await client.end();
process.disconnect?.();
