import { Redis } from 'ioredis';
import { createLocks, type Locks } from '../../../src/index.ts';
import { redisStore } from '../../../src/stores/redis/index.ts';
import { startRedis } from '../../../src/torture/servers/redis.ts';

/** A Redis server for examples, and what a test looks at it with. All of it is closed together. */
export interface ExampleRedis extends AsyncDisposable {
  readonly url: string;
  /** For the examples. */
  readonly env: NodeJS.ProcessEnv;
  readonly client: Redis;
  readonly locks: Locks;
}

export async function startExampleRedis(): Promise<ExampleRedis> {
  const server = await startRedis();
  const { url } = server;
  const client = new Redis(url);
  // Compiling an example blocks this process.
  const locks = createLocks(redisStore(client), { commandMs: 30_000 });
  return {
    url,
    env: { REDIS_URL: url },
    client,
    locks,
    async [Symbol.asyncDispose]() {
      await locks.close();
      client.disconnect();
      await server.stop();
    },
  };
}
