// A plugin for Fastify: `app.locks`, and routes whose handler runs under a lock.
// Run it twice: REDIS_URL=redis://localhost:6379 node --import tsx examples/fastify.ts
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify, { type FastifyPluginAsync, type FastifyRequest } from 'fastify';
import { AcquireTimeoutError, type Hold, type Locks, openLocks } from 'holdfast';
import { redisFenceGate } from 'holdfast/fence';
import { Redis } from 'ioredis';

declare module 'fastify' {
  interface FastifyInstance {
    locks: Locks;
  }
  interface FastifyRequest {
    hold: Hold | null;
  }
  interface FastifyContextConfig {
    lock?: (request: FastifyRequest) => string;
  }
}

const locksPlugin: FastifyPluginAsync<{ url: string; waitMs?: number }> = async (app, options) => {
  const locks = await openLocks(options.url, { waitMs: options.waitMs });
  app.decorate('locks', locks);
  app.decorateRequest('hold', null);
  app.addHook('onClose', () => locks.close({ drainMs: 20_000 }));
  // The lock lasts until the handler has returned, not until the response is sent: a client that
  // disconnects sees no response, while the handler still works.
  app.addHook('onRoute', (route) => {
    const { handler } = route;
    const nameOf = route.config?.lock;
    if (nameOf === undefined) return;
    route.handler = async function (request, reply) {
      try {
        return await locks.withLock(nameOf(request), (hold) => {
          request.hold = hold;
          return handler.call(this, request, reply);
        });
      } catch (error) {
        if (!(error instanceof AcquireTimeoutError)) throw error;
        return reply.code(423).header('Retry-After', '1').send({ error: 'in use' });
      }
    };
  });
};
// As fastify-plugin does: what the plugin decorates is seen by the whole application.
Object.assign(locksPlugin, { [Symbol.for('skip-override')]: true });

const url = process.env.REDIS_URL ?? 'redis://localhost:6379';
const client = new Redis(url);
const gate = redisFenceGate(client);
const app = Fastify();
await app.register(locksPlugin, { url, waitMs: Number(process.env.WAIT_MS ?? 5_000) });
app.addHook('onClose', async () => client.disconnect());

const lock = (request: FastifyRequest): string => `basket:${(request.params as { id: string }).id}`;
app.post<{ Params: { id: string } }>('/baskets/:id/items', { config: { lock } }, async (request) => {
  const key = `basket:${request.params.id}`;
  const fence = request.hold?.fence ?? 0n;
  const items = Number(await gate.read(key, fence, key)) + 1;
  await sleep(Number(process.env.WORK_MS ?? 0)); // stands for slow work
  await gate.write(key, fence, { set: [key, `${items}`] });
  return { items };
});

console.log(await app.listen({ port: Number(process.env.PORT ?? 0) }));
process.once('SIGTERM', () => void app.close());
