import { openLocks } from '../../../../src/index.ts';

// Takes a lock and reports that. On a message of its parent it releases the lock and exits at once.
const [, , url = '', name = '', ttlMs = '30000', permits = '0'] = process.argv;
const locks = await openLocks(url, { ttlMs: Number(ttlMs), waitMs: 300_000 });
const lock = permits === '0' ? locks.mutex(name) : locks.semaphore(name, { permits: Number(permits) });
const hold = await lock.acquire();
process.on('message', async () => {
  await hold.release();
  process.send?.('released', () => process.exit(0));
});
process.send?.('held');
