import { Redis } from 'ioredis';
import { createLocks, type Locks, type LocksOptions } from '../../../src/index.ts';
import { type RedisStoreOptions, redisStore } from '../../../src/stores/redis/index.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { type RedisOptions, startRedis } from '../../../src/torture/servers/redis.ts';
import type { Server } from '../../../src/torture/servers/server.ts';
import { type Library, openClient } from '../../support/clients/redis-clients.ts';

/** A Redis server, a proxy in front of it, and clients of both. All of it is closed together. */
export interface Stage extends AsyncDisposable {
  readonly server: Server;
  readonly proxy: FaultProxy;
  readonly proxyUrl: string;
  /** A client for looking behind the API. */
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
      const { prefix, queueMax, allowEviction, ...rest } = given;
      const locks = createLocks(redisStore(client, { prefix, queueMax, allowEviction }), {
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

export { eventually } from '../../support/waiting/eventually.ts';
