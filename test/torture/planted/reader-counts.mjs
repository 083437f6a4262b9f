// Planted: readers and permits are counted by one command and checked by another.
import { adapterOf } from './base.mjs';

const PERMITS = 2;

async function counted(redis, lock, max) {
  if (Number(await redis.get(`${lock}:count`)) >= max) return null;
  await redis.incr(`${lock}:count`);
  let isOver = false;
  return {
    isHeld: () => !isOver,
    release: async () => {
      isOver = true;
      await redis.decr(`${lock}:count`);
    },
  };
}

const make = adapterOf('readers and permits without a check');

export default async (env) => {
  const { Redis } = await import('ioredis');
  const redis = new Redis(env.url).on('error', () => {});
  return {
    ...(await make(env)),
    permits: PERMITS,
    acquirePermit: async (lock) => await counted(redis, lock, PERMITS),
    // Readers do not look whether a writer is there.
    acquireShared: async (lock) => await counted(redis, lock, Number.POSITIVE_INFINITY),
  };
};
