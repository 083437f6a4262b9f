// A small lock on one Redis that is right. Each planted adapter changes one step of it.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const GRANT = `local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return false end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return tostring(redis.call('INCR', KEYS[2]))`;
const RENEW = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;
const DROP = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

const WAIT_MS = 10_000;

export const right = {
  /** The fence, or `null` when another holds the lock. */
  grant: ({ redis, lock, token, ttlMs }) => redis.eval(GRANT, 2, lock, `${lock}:fence`, token, ttlMs),
  /** 1, or 0 when the lock is not ours any more. */
  renew: ({ redis, lock, token, ttlMs }) => redis.eval(RENEW, 1, lock, token, ttlMs),
  drop: ({ redis, lock, token }) => redis.eval(DROP, 1, lock, token),
  now: () => performance.now(),
  /** Until when a lease may be trusted that was asked for and granted at these times. */
  deadline: ({ ttlMs }, sentMs, _repliedMs) => sentMs + ttlMs * 0.99 - 2,
  /** Waits before it asks again; a fence means that nothing has to be asked. */
  pause: async () => void (await sleep(20 + Math.random() * 40)),
  /** A renewal was refused. */
  refused: (hold) => {
    hold.isLost = true;
  },
  isHeld: (hold, now) => !hold.isOver && !hold.isLost && now() < hold.untilMs,
  keepsRenewing: (hold) => !hold.isOver && !hold.isLost,
  failed: () => {},
  commandMs: 5_000,
  renewEveryMs: ({ ttlMs }) => ttlMs / 4,
};

/** The default export of an adapter module. */
export function adapterOf(name, change = {}, more = {}) {
  const step = { ...right, ...change };
  return async ({ url }) => {
    const redis = new Redis(url, { commandTimeout: step.commandMs, maxRetriesPerRequest: null });
    redis.on('error', () => {});
    const hold = async (claim, fence, untilMs) => {
      const held = { isOver: false, isLost: false, untilMs };
      const renew = async () => {
        const sentMs = step.now();
        try {
          const isOurs = await step.renew(claim);
          if (isOurs === 0) step.refused(held, claim);
          else held.untilMs = step.deadline(claim, sentMs, step.now());
        } catch (error) {
          step.failed(error);
        }
      };
      const timer = setInterval(() => {
        if (step.keepsRenewing(held)) void renew();
        else clearInterval(timer);
      }, step.renewEveryMs(claim));
      return {
        fence,
        isHeld: () => step.isHeld(held, step.now),
        release: async () => {
          held.isOver = true;
          await step.drop(claim);
        },
      };
    };
    const acquire = async (lock, ttlMs) => {
      const claim = { redis, url, lock, ttlMs, token: randomUUID() };
      for (const endMs = performance.now() + WAIT_MS; performance.now() < endMs; ) {
        const sentMs = step.now();
        const fence = await step.grant(claim).catch(() => null);
        const untilMs = step.deadline(claim, sentMs, step.now());
        if (fence !== null && step.now() < untilMs) return await hold(claim, fence, untilMs);
        const given = await step.pause(claim);
        if (given !== undefined) return await hold(claim, given, step.now() + ttlMs);
      }
      await step.drop(claim).catch(() => {});
      return null;
    };
    return { name, acquire, close: async () => redis.disconnect(), ...more };
  };
}
