// Planted: a waiter that is woken takes the lock for granted, without asking for it.
import { setTimeout as sleep } from 'node:timers/promises';
import { adapterOf } from './base.mjs';

export default adapterOf('no check after the wait', {
  pause: async ({ redis, lock }) => {
    await sleep(20 + Math.random() * 40);
    const isFree = (await redis.exists(lock).catch(() => 1)) === 0;
    return isFree ? String(await redis.incr(`${lock}:fence`)) : undefined;
  },
});
