import { afterAll, beforeAll } from 'vitest';
import type { Store } from '../../../src/store/store.ts';
import { redisStore } from '../../../src/stores/redis/index.ts';
import { startSharedRedis } from '../../../src/torture/servers/redis.ts';
import type { Server } from '../../../src/torture/servers/server.ts';
import { type Library, openClient } from '../clients/redis-clients.ts';

export const redisTraits = { lifetime: 'lease', ordered: true, counting: true, remembers: true } as const;

/**
 * What the conformance suite needs of Redis under one client library. `prepare` gives the URL to
 * connect with.
 */
export function redisSubject(
  library: Library,
  prepare: (server: Server) => Promise<string> = async ({ url }) => url,
) {
  const closers: Array<() => void> = [];
  let server: Server;
  let url: string;
  beforeAll(async () => {
    server = await startSharedRedis();
    url = await prepare(server);
  });
  afterAll(async () => {
    for (const close of closers) close();
    await server.stop();
  });
  return {
    traits: redisTraits,
    open: async (options?: { queueMax?: number | undefined }): Promise<Store> => {
      const { client, close } = await openClient(library, url);
      closers.push(close);
      return redisStore(client, options);
    },
  };
}
