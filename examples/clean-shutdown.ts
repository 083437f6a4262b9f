// A service that ends well on SIGTERM: running jobs end, no new ones begin, and no lock stays behind.
// Run: REDIS_URL=redis://localhost:6379 node --import tsx examples/clean-shutdown.ts
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { openLocks } from 'holdfast';

const locks = await openLocks(process.env.REDIS_URL ?? 'redis://localhost:6379', { ttlMs: 60_000 });

/** `POST /report?ms=500` works for that long under the lock `report`. */
const server = createServer(async ({ url = '/' }, response) => {
  const { pathname, searchParams } = new URL(url, 'http://localhost');
  try {
    await locks.withLock(pathname.slice(1), async (hold) => {
      response.writeHead(200).flushHeaders();
      await sleep(Number(searchParams.get('ms')), undefined, { signal: hold.signal });
    });
    response.end('done');
  } catch {
    response.end('interrupted');
  }
});
server.listen(Number(process.env.PORT ?? 0), () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});

process.once('SIGTERM', async () => {
  server.close();
  // No new holds. The running ones may end; after drainMs their signals abort, and they are released.
  await locks.close({ drainMs: Number(process.env.DRAIN_MS ?? 20_000) });
  console.log('closed');
});
