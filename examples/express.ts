// Handlers of Express that run under a lock.
// Run it twice: REDIS_URL=redis://localhost:6379 node --import tsx examples/express.ts
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import express, { type Request, type RequestHandler } from 'express';
import { AcquireTimeoutError, type Hold, type Locks, openLocks, StoreError } from 'holdfast';
import { redisFenceGate } from 'holdfast/fence';
import { Redis } from 'ioredis';

type LockedHandler = (request: Request, hold: Hold) => Promise<unknown>;

/**
 * The lock lasts until the handler has returned. It is not released when the response closes: a client
 * that disconnects closes it, while the handler still works.
 */
function locked(locks: Locks, nameOf: (request: Request) => string, handler: LockedHandler): RequestHandler {
  return async (request, response) => {
    try {
      // The answer is sent when the lock has been held to the end: a lost hold is an error instead.
      response.json(await locks.withLock(nameOf(request), (hold) => handler(request, hold)));
    } catch (error) {
      const isBusy = error instanceof AcquireTimeoutError;
      if (!isBusy && !(error instanceof StoreError)) throw error; // Express 5 passes it to its error handler
      response
        .status(isBusy ? 423 : 503)
        .set('Retry-After', '1')
        .json({ error: isBusy ? 'in use' : 'away' });
    }
  };
}

const url = process.env.REDIS_URL ?? 'redis://localhost:6379';
const client = new Redis(url);
const gate = redisFenceGate(client);
const locks = await openLocks(url, { waitMs: Number(process.env.WAIT_MS ?? 5_000) });
const app = express();

app.post(
  '/baskets/:id/items',
  locked(
    locks,
    (request) => `basket:${request.params.id}`,
    async (request, hold) => {
      const key = `basket:${request.params.id}`;
      const items = Number(await gate.read(key, hold.fence, key)) + 1;
      await sleep(Number(process.env.WORK_MS ?? 0)); // stands for slow work
      await gate.write(key, hold.fence, { set: [key, `${items}`] });
      return { items };
    },
  ),
);

const server = app.listen(Number(process.env.PORT ?? 0), () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
process.once('SIGTERM', async () => {
  server.close();
  await locks.close({ drainMs: 20_000 });
  client.disconnect();
});
