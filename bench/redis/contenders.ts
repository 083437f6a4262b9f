import { Redlock as SesameRedlock } from '@sesamecare-oss/redlock';
import { Verrou } from '@verrou/core';
import { redisStore as verrouStore } from '@verrou/core/drivers/redis';
import { createLocks, type Store } from 'holdfast';
import { redisStore } from 'holdfast/redis';
import { Redis } from 'ioredis';
import { Mutex } from 'redis-semaphore';
import Redlock from 'redlock';
import { createLock, IoredisAdapter } from 'redlock-universal';
import { type Contender, holdfastOn } from '../shared/contender.ts';

export type MakeContender = (url: string) => Contender;

export const TTL_MS = 30_000;

export const RELEASE = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

/** The floor of a fenced lock: the same two commands, and a counter that follows the server's clock. */
const FENCED = `local t = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
local fence = math.max(last + 1, t[1] * 1000000 + t[2])
local text = string.format('%.0f', fence)
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
redis.call('SET', KEYS[2], text)
return text`;

interface Scripted {
  floorRelease(key: string, value: string): Promise<number>;
  fencedClaim(key: string, counter: string, value: string, ttlMs: number): Promise<string | null>;
}

function scripted(url: string): Redis & Scripted {
  const client = new Redis(url);
  client.defineCommand('floorRelease', { numberOfKeys: 1, lua: RELEASE });
  client.defineCommand('fencedClaim', { numberOfKeys: 2, lua: FENCED });
  return client as Redis & Scripted;
}

let count = 0;
export const value = (): string => `bench:${process.pid}:${(count++).toString(36)}`;

export const floor: MakeContender = (url) => {
  const client = scripted(url);
  return {
    name: 'floor: SET NX PX + script',
    async acquire(lock) {
      const own = value();
      if ((await client.set(lock, own, 'PX', TTL_MS, 'NX')) === null) throw new Error('held');
      return () => client.floorRelease(lock, own);
    },
    close: () => client.disconnect(),
  };
};

export const fenced: MakeContender = (url) => {
  const client = scripted(url);
  return {
    name: 'bare fenced scripts',
    async acquire(lock) {
      const own = value();
      if ((await client.fencedClaim(lock, 'bench-counter', own, TTL_MS)) === null) throw new Error('held');
      return () => client.floorRelease(lock, own);
    },
    close: () => client.disconnect(),
  };
};

/** What the contenders use of a client. */
interface Closable {
  disconnect(): void;
}

const closeAll = (clients: readonly Closable[]) => (): void => {
  for (const client of clients) client.disconnect();
};

export function holdfastOver(name: string, store: Store, clients: readonly Closable[]): Contender {
  const locks = createLocks(store, { ttlMs: TTL_MS, waitMs: Number.POSITIVE_INFINITY });
  return holdfastOn(locks, closeAll(clients), name);
}

export function redlockOver(name: string, clients: readonly Closable[]): Contender {
  const redlock = new Redlock(clients, { retryCount: -1 });
  return {
    name,
    async acquire(lock) {
      const held = await redlock.acquire([lock], TTL_MS);
      return () => held.release();
    },
    close: closeAll(clients),
  };
}

export function sesameOver(client: Closable): Contender {
  const redlock = new SesameRedlock([client as never], { retryCount: -1 });
  return {
    name: '@sesamecare-oss/redlock',
    async acquire(lock) {
      const held = await redlock.acquire([lock], TTL_MS);
      return () => held.release();
    },
    close: closeAll([client]),
  };
}

export function semaphoreOver(client: Closable): Contender {
  return {
    name: 'redis-semaphore',
    async acquire(lock) {
      const mutex = new Mutex(client as never, lock, { lockTimeout: TTL_MS, acquireTimeout: 600_000 });
      await mutex.acquire();
      return () => mutex.release();
    },
    close: closeAll([client]),
  };
}

export const holdfast: MakeContender = (url) => {
  const client = new Redis(url);
  return holdfastOver('holdfast', redisStore(client), [client]);
};

const redlock5: MakeContender = (url) => redlockOver('redlock 5', [new Redis(url)]);
const sesame: MakeContender = (url) => sesameOver(new Redis(url));
const semaphore: MakeContender = (url) => semaphoreOver(new Redis(url));

const universal: MakeContender = (url) => {
  const client = new Redis(url);
  const adapter = new IoredisAdapter(client as never);
  return {
    name: 'redlock-universal',
    async acquire(lock) {
      const made = createLock({ adapter, key: lock, ttl: TTL_MS, retryAttempts: 100_000 });
      const held = await made.acquire();
      return () => made.release(held);
    },
    close: () => client.disconnect(),
  };
};

const verrou: MakeContender = (url) => {
  const client = new Redis(url);
  const made = new Verrou({
    default: 'redis',
    stores: { redis: { driver: verrouStore({ connection: client as never }) } },
  });
  return {
    name: '@verrou/core',
    async acquire(lock) {
      const held = made.createLock(lock, TTL_MS);
      await held.acquire();
      return () => held.release();
    },
    close: () => client.disconnect(),
  };
};

export const peers: readonly MakeContender[] = [redlock5, sesame, semaphore, universal, verrou];
