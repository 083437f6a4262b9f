import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { expectGrantRule } from '../support/conformance/queue-model.ts';

let server: Server;
let client: Redis;
let stores: Store[];
beforeAll(async () => {
  server = await startRedis();
  client = new Redis(server.url);
  stores = [redisStore(client), redisStore(client)];
});
afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()));
  client.disconnect();
  await server.stop();
});

it('the scripts follow the grant rule, step by step', async () => {
  const expectEmpty = async (name: string): Promise<void> => {
    expect(await client.keys(`*${name}`)).toEqual([]);
  };
  await expectGrantRule({ stores, numRuns: 500, expectEmpty });
}, 60_000);
