import type { EventEmitter } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import type { Mode } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { LIBRARIES, openClient, PREVIOUS_LIBRARIES } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { expectSharedListeners } from './support/shared-listeners.ts';
import { startStage } from './support/stage.ts';

const stage = await useStage(startStage());

/** The heap that this process uses. */
async function heapBytes(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  for (let round = 0; round < 4; round += 1) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return process.memoryUsage().heapUsed;
}

it.each([...LIBRARIES, ...PREVIOUS_LIBRARIES])(
  'nothing is left at the server of a connection that was being made when the store was closed, under %s',
  async (library) => {
    const connections = async (): Promise<number> =>
      String(await stage.admin.call('CLIENT', 'LIST')).split('\n').length;
    const { client, close } = await openClient(library, stage.server.url);
    const before = await connections();
    for (let turns = 0; turns < 12; turns += 1) {
      const store = redisStore(client);
      const watch = store.watch({ name: 'x' }, () => {});
      for (let turn = 0; turn < turns; turn += 1) await (turn < 4 ? null : new Promise(setImmediate));
      await store.close();
      await watch;
    }
    await eventually('they are gone', async () => (await connections()) <= before);
    close();
  },
);

it.each([...LIBRARIES, ...PREVIOUS_LIBRARIES])(
  'stores over one client share their listeners, and leave none, under %s',
  async (library) => {
    const { client, close } = await openClient(library, stage.server.url);
    await expectSharedListeners(client, () => [client as unknown as EventEmitter]);
    close();
  },
);

describe.each(LIBRARIES)('nothing is left behind, under %s', (library) => {
  it('in this process, of claims that the server has refused', async () => {
    const locks = await stage.locks(library, stage.server.url, { queueMax: 1 });
    const name = `away-${library}`;
    const hold = await locks.mutex(name).acquire();
    const waiter = later(locks.mutex(name).acquire());
    await eventually('it waits', async () => (await locks.inspect(name)).waiters.length === 1);
    const turnedAway = async (times: number): Promise<void> => {
      for (let n = 0; n < times; n += 100) {
        const lock = n % 200 === 0 ? locks.mutex(name) : locks.semaphore(name, { permits: 2 });
        const tries = Array.from({ length: 100 }, () => lock.acquire().catch((error) => error.code));
        expect(new Set(await Promise.all(tries)).size).toBe(1);
      }
    };
    await turnedAway(2_000);
    const before = await heapBytes();
    await turnedAway(20_000);
    expect(((await heapBytes()) - before) / 20_000).toBeLessThan(80);
    await hold.release();
    await (await waiter).release();
  });
});

it('a queue key that lives longer than the info key does not let the info key expire', async () => {
  const { client, close } = await openClient('ioredis', stage.server.url);
  const store = redisStore(client);
  const ask = (id: string, kind: Exclude<Mode['kind'], 'permits'>, ttlMs = 30_000) =>
    store.claim({ name: 'covered', id, mode: { kind }, ttlMs, wait: true, note: '', fenceAbove: 0n });
  const observer = await store.watch({ name: 'covered' }, () => {});
  await ask('reader', 'shared', 3_600_000);
  await store.release({ name: 'covered', id: 'reader' });
  await ask('holder', 'exclusive');
  await ask('first', 'exclusive');
  await observer[Symbol.asyncDispose]();
  const [queue, info] = ['queue', 'info'].map((part) => `holdfast:\u0001${part}:covered`) as [string, string];
  await eventually('nobody observes', async () => (await stage.admin.zcard(queue)) === 1);
  expect(await stage.admin.pttl(queue)).toBeGreaterThan(3_600_000);
  // Much later, when the info key is about to expire.
  await stage.admin.pexpire(info, 20_000);
  await ask('second', 'exclusive');
  // Two minutes for the queue position, and the time that helper keys are kept longer.
  expect(await stage.admin.pttl(info)).toBeGreaterThan(145_000);
  for (const id of ['second', 'first', 'holder']) await store.release({ name: 'covered', id });
  expect(await stage.admin.exists(queue, info)).toBe(0);
  await store.close();
  close();
});

/** The time, from now on, after which the last key of the lock is gone. */
async function lastKeyMs(part: string): Promise<number> {
  const keys = (await stage.admin.keys('*')).filter((key) => key.includes(part));
  const lives = await Promise.all(keys.map((key) => stage.admin.pttl(key)));
  // A key that has expired since it was listed has -2.
  expect(lives.filter((ms) => ms === -1)).toEqual([]);
  return Math.max(0, ...lives);
}

it('helper keys of rateLimit and once are gone within a minute after their window', async () => {
  const locks = await stage.locks('ioredis', stage.server.url);
  const windowMs = 3_000;
  const limit = locks.rateLimit('leftover-limit', { permits: 2, perMs: windowMs });
  // The third one waits for the window of the first.
  for (let n = 0; n < 3; n += 1) await limit.take(1, { waitMs: 10_000 });
  expect(await lastKeyMs('leftover-limit')).toBeLessThanOrEqual(windowMs + 60_000);
  const rememberMs = 5_000;
  const job = (): Promise<unknown> => locks.once('leftover-job', async () => 'done', { rememberMs });
  await Promise.all([job(), job(), job()]);
  expect(await lastKeyMs('leftover-job')).toBeLessThanOrEqual(rememberMs + 60_000);
});
