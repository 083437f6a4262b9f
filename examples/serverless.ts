// A handler of a serverless function, whose process is frozen between two invocations and may be
// frozen in the middle of one. Run: REDIS_URL=redis://localhost:6379 node --import tsx
// examples/serverless.ts 42
import { createLocks, StaleFenceError } from 'holdfast';
import { redisFenceGate } from 'holdfast/fence';
import { redisStore } from 'holdfast/redis';
import { Redis } from 'ioredis';

// Kept between invocations. ioredis connects again when the server has dropped a frozen connection.
const client = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { lazyConnect: true });
const gate = redisFenceGate(client);

export async function handler(event: { order: string }): Promise<{ statusCode: number }> {
  // Without renewals nothing runs in the background. The lock lasts as long as an invocation may.
  const ttlMs = Number(process.env.TTL_MS ?? 15_000);
  const locks = createLocks(redisStore(client), { renew: false, ttlMs });
  try {
    const outcome = await locks.mutex(`order:${event.order}`).tryRun(async (hold) => {
      const label = await makeLabel(event.order);
      await gate.write(`order:${event.order}`, hold.fence, { set: [`label:${event.order}`, label] });
    });
    return { statusCode: outcome.ran ? 200 : 409 };
  } catch (error) {
    // Another invocation has had the lock meanwhile, and has written.
    if (error instanceof StaleFenceError) return { statusCode: 409 };
    throw error;
  } finally {
    await locks.close(); // awaited, so that nothing is left to do when the runtime freezes
  }
}

async function makeLabel(order: string): Promise<string> {
  const response = await fetch(`${process.env.LABELS_URL ?? 'https://labels.example'}/${order}`);
  return await response.text();
}

if (process.argv[2] !== undefined) {
  console.log(await handler({ order: process.argv[2] }));
  client.disconnect();
}
