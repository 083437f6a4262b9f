// npm @verrou/core on Redis. It does not renew by itself.
import { Verrou } from '@verrou/core';
import { redisStore } from '@verrou/core/drivers/redis';
import { Redis } from 'ioredis';

export default async ({ url }) => {
  const connection = new Redis(url).on('error', () => {});
  const verrou = new Verrou({ default: 'redis', stores: { redis: { driver: redisStore({ connection }) } } });
  return {
    name: '@verrou/core',
    async acquire(name, ttlMs) {
      const lock = verrou.createLock(name, ttlMs);
      if (!(await lock.acquire({ retry: { timeout: 10_000 } }))) return null;
      return { isHeld: () => !lock.isExpired(), release: () => lock.release() };
    },
    close: async () => connection.disconnect(),
  };
};
