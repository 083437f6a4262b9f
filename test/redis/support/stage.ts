import { Redis } from 'ioredis';
import { createLocks, type Locks, type LocksOptions } from '../../../src/index.ts';
import { type RedisStoreOptions, redisStore } from '../../../src/stores/redis/index.ts';
import { type FaultProxy, startFaultProxy } from '../../support/fault-proxy.ts';
import { type Library, openClient } from '../../support/redis-clients.ts';
import { type RedisOptions, startRedis } from '../../support/servers/redis.ts';
import type { Server } from '../../support/servers/server.ts';

/** A Redis of a test's own, what connects to it, and a proxy in front of it where asked for. All of it is closed together. */
export interface Stage extends AsyncDisposable {
  readonly server: Server;
  readonly proxy: FaultProxy;
  readonly proxyUrl: string;
  /** A plain client, for looking behind the API. */
  readonly admin: Redis;
  locks(library: Library, url: string, options?: LocksOptions & RedisStoreOptions): Promise<Locks>;
}

export async function startStage(options: RedisOptions = {}): Promise<Stage> {
  const server = await startRedis(options);
  const proxy = await startFaultProxy(server.port);
  const admin = new Redis(server.url, { maxRetriesPerRequest: null });
  admin.on('error', () => {});
  const closers: Array<() => Promise<void> | void> = [];
  return {
    server,
    proxy,
    proxyUrl: `redis://127.0.0.1:${proxy.port}`,
    admin,
    async locks(library, url, given = {}) {
      const { client, close } = await openClient(library, url);
      const { prefix, lineMax, allowEviction, ...rest } = given;
      const locks = createLocks(redisStore(client, { prefix, lineMax, allowEviction }), {
        waitMs: 20_000,
        ...rest,
      });
      closers.push(async () => {
        proxy.pass();
        await locks.close({ drainMs: 0 });
        close();
      });
      return locks;
    },
    async [Symbol.asyncDispose]() {
      await Promise.allSettled(closers.map((close) => close()));
      admin.disconnect();
      await proxy.stop();
      await server.stop();
    },
  };
}

export { eventually } from '../../support/patience.ts';
