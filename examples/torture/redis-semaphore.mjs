// npm redis-semaphore: a Mutex with the handling of a lost lock that its page shows.
import { Redis } from 'ioredis';
import { Mutex } from 'redis-semaphore';

export default async ({ url }) => {
  const redis = new Redis(url).on('error', () => {});
  return {
    name: 'redis-semaphore',
    async acquire(lock, ttlMs) {
      const mutex = new Mutex(redis, lock, { lockTimeout: ttlMs, onLockLost: () => {} });
      try {
        await mutex.acquire();
      } catch (error) {
        if (error.name === 'TimeoutError' || /^Acquire mutex/.test(error.message)) return null;
        throw error;
      }
      return { isHeld: () => mutex.isAcquired, release: () => mutex.release() };
    },
    close: async () => redis.disconnect(),
  };
};
