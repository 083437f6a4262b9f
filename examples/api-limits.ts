// Calls to an API that limits concurrent calls and calls a minute, over all processes together.
// Run: REDIS_URL=redis://localhost:6379 API_URL=https://api.example
// node --import tsx examples/api-limits.ts 20
import { createLocks } from 'holdfast';
import { redisStore } from 'holdfast/redis';
import { Redis } from 'ioredis';

const client = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const locks = createLocks(redisStore(client), { waitMs: 120_000 });

const atOnce = locks.semaphore('api', { permits: 3 });
const perMinute = locks.rateLimit('api', {
  permits: Number(process.env.PER_WINDOW ?? 60),
  perMs: Number(process.env.WINDOW_MS ?? 60_000),
});

async function call(path: string): Promise<number> {
  return await atOnce.run(async (hold) => {
    // Inside: what waited for its permit after this would reach the API later than it was counted.
    await perMinute.take();
    const response = await fetch(new URL(path, process.env.API_URL ?? 'https://api.example'), {
      signal: hold.signal,
    });
    return response.status;
  });
}

const count = Number(process.argv[2] ?? 20);
const statuses = await Promise.all(Array.from({ length: count }, (_, n) => call(`/items/${n}`)));
console.log(statuses.join(' '));
await locks.close();
client.disconnect();
