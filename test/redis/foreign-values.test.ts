import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { eventually, later } from '../support/patience.ts';
import { type Stage, startStage } from './support/stage.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await startStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

describe('what another program has written under the same key', () => {
  // The last stands where ours would have its fence and a space.
  it.each(['V1StGXR8_Z5jdHi6B-', 'a', '1794777027 worker-7', '17947770271613760x worker-7'])(
    '%s is not given up by who does not name all of it',
    async (value) => {
      const store = redisStore(stage.admin, { prefix: '' });
      const locks = await stage.locks('ioredis', stage.server.url, { prefix: '' });
      await stage.admin.set('theirs', value, 'PX', 60_000);
      for (const tail of [value.slice(17), value.slice(-1), 'worker-7', '', '-'].filter(
        (id) => id !== value,
      )) {
        expect(await store.release({ name: 'theirs', id: tail }), tail).toBe(false);
        // Several in one call are looked at in another way.
        const several = [tail, `${tail}0`].map((id) => store.release({ name: 'theirs', id }));
        expect(await Promise.all(several), tail).toEqual([false, false]);
        if (tail !== '') expect(await locks.evict('theirs', { id: tail }), tail).toBe(false);
      }
      expect(await stage.admin.get('theirs')).toBe(value);
      expect(await locks.evict('theirs', { id: value })).toBe(true);
      expect(await stage.admin.get('theirs')).toBeNull();
    },
  );

  it('that it is free again is seen soon, also when it looks a little like ours', async () => {
    const locks = await stage.locks('ioredis', stage.server.url, { prefix: '' });
    await stage.admin.set('dated', `${Math.floor(Date.now() / 1000)} worker-7`, 'PX', 60_000);
    const pending = later(locks.mutex('dated').acquire({ waitMs: 30_000 }));
    await eventually('it waits', async () => (await locks.inspect('dated')).waiters.length === 1);
    // Until it listens, and has asked for the last time for a while.
    await sleep(300);
    await stage.admin.del('dated');
    const startedMs = performance.now();
    await (await pending).release();
    expect(performance.now() - startedMs).toBeLessThan(15_000);
  });

  it.each(['', '~token', '~rw 1'])('%j is seen to hold it', async (value) => {
    const locks = await stage.locks('ioredis', stage.server.url, { prefix: '' });
    await stage.admin.set('odd', value, 'PX', 60_000);
    expect(await locks.mutex('odd').tryAcquire()).toBeNull();
    expect((await locks.inspect('odd')).holders).toMatchObject([{ id: value, fence: null }]);
    await stage.admin.del('odd');
  });
});

describe('what others do to our keys', () => {
  it('the line of a shared lock is gone: it is refused until the holders have ended', async () => {
    const locks = await stage.locks('ioredis', stage.server.url);
    await locks.readWriteLock('lineless').read.acquire({ ttlMs: 60_000, renew: false });
    await stage.admin.del('holdfast:\u0001line:lineless');
    expect(await locks.readWriteLock('lineless').write.tryAcquire()).toBeNull();
    expect(await locks.evict('lineless', { id: await value('holdfast:lineless') })).toBe(true);
  });

  it('a message that is not whole makes no hold', async () => {
    const [holder, waiter] = [
      await stage.locks('ioredis', stage.server.url),
      await stage.locks('ioredis', stage.server.url),
    ];
    const hold = await holder.mutex('forged').acquire();
    let granted = false;
    const pending = later(waiter.mutex('forged').acquire());
    pending.then(
      () => {
        granted = true;
      },
      () => {},
    );
    await eventually('it waits', async () => (await holder.inspect('forged')).waiters.length === 1);
    await sleep(100);
    const id = String((await holder.inspect('forged')).waiters[0]?.id);
    for (const channel of (await stage.admin.pubsub('CHANNELS', '*wake:*')) as string[]) {
      for (const rest of ['5', '1794777027161376', '1794777027161376\nsoon'])
        await stage.admin.publish(channel, `g\nholdfast:forged\n${id}\n${rest}`);
    }
    await sleep(100);
    expect(granted).toBe(false);
    await hold.release();
    expect((await pending).fence).toBeGreaterThan(hold.fence);
    await (await pending).release();
  });
});

const value = async (key: string): Promise<string> => String(await stage.admin.get(key));

it('the plain key of a shared lock lives as long as its last holder', async () => {
  const locks = await stage.locks('ioredis', stage.server.url, { renew: false });
  const { read } = locks.readWriteLock('shared');
  const leftMs = (): Promise<number> => stage.admin.pttl('holdfast:shared');
  const long = await read.acquire({ ttlMs: 3_600_000 });
  const short = await read.acquire({ ttlMs: 20_000 });
  expect(await leftMs()).toBeGreaterThan(3_000_000);
  await long.release();
  expect(await leftMs()).toBeLessThanOrEqual(20_000);
  short.assertHeld();
  await short.extend(60_000);
  expect(await leftMs()).toBeGreaterThan(50_000);
  await short.extend(10_000);
  expect(await leftMs()).toBeLessThanOrEqual(10_000);
  await short.release();
  expect(await leftMs()).toBe(-2);
});

it('a client that gives numbers as texts shows the same', async () => {
  const client = new Redis(stage.server.url, { stringNumbers: true });
  const locks = createLocks(redisStore(client));
  const hold = await locks.mutex('texts').acquire();
  const [holder] = (await locks.inspect('texts')).holders;
  expect(holder?.expiresInMs).toBeTypeOf('number');
  expect(await hold.release()).toBe(true);
  await locks.close();
  client.disconnect();
});
