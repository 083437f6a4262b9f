// Two workers of one queue: only one of them bills at a time, and a late write is refused.
// Run: REDIS_URL=redis://localhost:6379 node --import tsx examples/redis.ts
import { createLocks } from 'holdfast';
import { redisFenceGate } from 'holdfast/fence';
import { redisStore } from 'holdfast/redis';
import { Redis } from 'ioredis';

const client = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const locks = createLocks(redisStore(client), { owner: `billing:${process.pid}` });
const gate = redisFenceGate(client);

const bill = (customer: string): Promise<void> =>
  locks.withLock(`billing:${customer}`, async (hold) => {
    console.log(`billing ${customer}, fence ${hold.fence}`);
    // Pass `hold.signal` to long work: it aborts the moment the lock can no longer be trusted.
    await gate.write(`invoice:${customer}`, hold.fence, { set: [`invoice:${customer}`, 'paid'] });
  });

await Promise.all([bill('ada'), bill('ada'), bill('grace')]);
await locks.close();
client.disconnect();
