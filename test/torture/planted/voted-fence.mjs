// Planted: the fence is the greatest of the counters of a majority, which may lag behind. server: redlock
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const GRANT = `local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return false end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('INCR', KEYS[2])`;
const DROP = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end`;

export default async ({ url }) => {
  const nodes = url
    .replace('redlock://', '')
    .split(',')
    .map((each) => new Redis(`redis://${each}`, { commandTimeout: 200, maxRetriesPerRequest: 0 }));
  for (const node of nodes) node.on('error', () => {});
  const onAll = async (...args) =>
    (await Promise.allSettled(nodes.map((node) => node.eval(...args)))).flatMap((each) =>
      each.status === 'fulfilled' && each.value !== null ? [Number(each.value)] : [],
    );
  return {
    name: 'fence by the maximum of votes',
    async acquire(lock, ttlMs) {
      const token = randomUUID();
      for (const endMs = performance.now() + 10_000; performance.now() < endMs; ) {
        const sentMs = performance.now();
        const votes = await onAll(GRANT, 2, lock, `${lock}:fence`, token, ttlMs);
        const untilMs = sentMs + ttlMs * 0.95;
        let isOver = false;
        const release = async () => {
          isOver = true;
          await onAll(DROP, 1, lock, token);
        };
        if (votes.length > nodes.length / 2 && performance.now() < untilMs)
          return {
            fence: Math.max(...votes),
            isHeld: () => !isOver && performance.now() < untilMs,
            release,
          };
        await release();
        await sleep(20 + Math.random() * 80);
      }
      return null;
    },
    close: async () => {
      for (const node of nodes) node.disconnect();
    },
  };
};
