import { Redis } from 'ioredis';
import { createLocks, type Locks, type LocksOptions } from '../../../src/index.ts';
import { type RedisStoreOptions, redisStore } from '../../../src/stores/redis/index.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { type RedisOptions, startRedis } from '../../../src/torture/servers/redis.ts';
import type { Server } from '../../../src/torture/servers/server.ts';
import { type Library, openClient } from '../../support/clients/redis-clients.ts';
import { eventually } from '../../support/waiting/eventually.ts';

/** A Redis server, a proxy in front of it, and clients of both. All of it is closed together. */
export interface Stage extends AsyncDisposable {
  readonly server: Server;
  readonly proxy: FaultProxy;
  readonly proxyUrl: string;
  /** A client for looking behind the API. */
  readonly admin: Redis;
  locks(library: Library, url: string, options?: LocksOptions & RedisStoreOptions): Promise<Locks>;
  /** Closes all locks so far. Later tests then do not count their heartbeats and checks. */
  leaveAll(): Promise<void>;
  /**
   * Resolves when this many claims wait for a lock and the server knows the channel of each. A claim
   * enters the queue before that, and is then granted unseen even if its process has died.
   */
  reachable(name: string, count: number): Promise<void>;
}

export async function startStage(options: RedisOptions = {}): Promise<Stage> {
  const server = await startRedis(options);
  const proxy = await startFaultProxy(server.port);
  const admin = new Redis(server.url, { maxRetriesPerRequest: null });
  admin.on('error', () => {});
  const closers: Array<() => Promise<void> | void> = [];
  const leaveAll = async (): Promise<void> => {
    await Promise.allSettled(closers.splice(0).map((close) => close()));
  };
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
    leaveAll,
    async reachable(name, count) {
      await eventually(`${count} wait for ${name} and can be reached`, async () => {
        const entries = await admin.hvals(`holdfast:\u0001info:${name}`);
        return entries.filter((entry) => /^w (\S+ ){4}[^- ]/.test(entry)).length === count;
      });
    },
    async [Symbol.asyncDispose]() {
      await leaveAll();
      admin.disconnect();
      await proxy.stop();
      await server.stop();
    },
  };
}

export { eventually } from '../../support/waiting/eventually.ts';
