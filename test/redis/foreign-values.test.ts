import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { createLocks, type Hold } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { startStage } from './support/stage.ts';

const stage = await useStage(startStage());

describe('a value that another program has stored under the same key', () => {
  // The last one is where our value would have its fence and a space.
  it.each(['V1StGXR8_Z5jdHi6B-', 'a', '1794777027 worker-7', '17947770271613760x worker-7'])(
    '%s is released only by its whole value',
    async (value) => {
      const store = redisStore(stage.admin, { prefix: '' });
      const locks = await stage.locks('ioredis', stage.server.url, { prefix: '' });
      await stage.admin.set('theirs', value, 'PX', 60_000);
      for (const tail of [value.slice(17), value.slice(-1), 'worker-7', '', '-'].filter(
        (id) => id !== value,
      )) {
        expect(await store.release({ name: 'theirs', id: tail }), tail).toBe(false);
        // Several items in one call take another path in the script.
        const several = [tail, `${tail}0`].map((id) => store.release({ name: 'theirs', id }));
        expect(await Promise.all(several), tail).toEqual([false, false]);
        if (tail !== '') expect(await locks.evict('theirs', { id: tail }), tail).toBe(false);
      }
      expect(await stage.admin.get('theirs')).toBe(value);
      expect(await locks.evict('theirs', { id: value })).toBe(true);
      expect(await stage.admin.get('theirs')).toBeNull();
    },
  );

  it('is noticed soon when it is gone, also if it resembles our values', async () => {
    const locks = await stage.locks('ioredis', stage.server.url, { prefix: '' });
    await stage.admin.set('dated', `${Math.floor(Date.now() / 1000)} worker-7`, 'PX', 60_000);
    const pending = later(locks.mutex('dated').acquire({ waitMs: 30_000 }));
    await eventually('it waits', async () => (await locks.inspect('dated')).waiters.length === 1);
    // By then the waiter is subscribed, and does not ask again for a while.
    await sleep(300);
    await stage.admin.del('dated');
    const startedMs = performance.now();
    await (await pending).release();
    expect(performance.now() - startedMs).toBeLessThan(15_000);
  });

  it.each(['', '~token', '~rw 1'])('%j counts as a holder', async (value) => {
    const locks = await stage.locks('ioredis', stage.server.url, { prefix: '' });
    await stage.admin.set('odd', value, 'PX', 60_000);
    expect(await locks.mutex('odd').tryAcquire()).toBeNull();
    expect((await locks.inspect('odd')).holders).toMatchObject([{ id: value, fence: null }]);
    await stage.admin.del('odd');
  });
});

describe('changes that other programs make to our keys', () => {
  it('a deleted queue of a shared lock: a writer is refused until the readers expire', async () => {
    const locks = await stage.locks('ioredis', stage.server.url);
    await locks.readWriteLock('lineless').read.acquire({ ttlMs: 60_000, renew: false });
    await stage.admin.del('holdfast:\u0001queue:lineless');
    expect(await locks.readWriteLock('lineless').write.tryAcquire()).toBeNull();
    expect(await locks.evict('lineless', { id: await value('holdfast:lineless') })).toBe(true);
  });

  it('an incomplete message is not a grant', async () => {
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
    await stage.reachable('forged', 1);
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

describe.concurrent('a hold whose key another program replaces by a key of another type', () => {
  const lost = async (hold: Hold): Promise<unknown> => {
    const { signal } = hold;
    await eventually('the hold is lost', () => signal.aborted, 10_000);
    return signal.reason;
  };

  it.each(['mutex', 'read lock', 'queue of a read lock'])('is lost at the next renewal: %s', async (kind) => {
    const locks = await stage.locks('ioredis', stage.server.url, { ttlMs: 20_000, renewEveryMs: 300 });
    const name = `replaced ${kind}`;
    const lock = kind === 'mutex' ? locks.mutex(name) : locks.readWriteLock(name).read;
    const hold = await lock.acquire();
    const key = kind.startsWith('queue') ? `holdfast:\u0001queue:${name}` : `holdfast:${name}`;
    await stage.admin.multi().del(key).rpush(key, 'theirs').exec();
    expect(await lost(hold)).toMatchObject({ code: 'HOLD_LOST', how: 'taken' });
    // What the other program has stored is not touched.
    expect(await stage.admin.lrange(key, 0, -1)).toEqual(['theirs']);
    await stage.admin.del(key);
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

it('a client with stringNumbers shows the same claims', async () => {
  const client = new Redis(stage.server.url, { stringNumbers: true });
  const locks = createLocks(redisStore(client));
  const hold = await locks.mutex('texts').acquire();
  const [holder] = (await locks.inspect('texts')).holders;
  expect(holder?.expiresInMs).toBeTypeOf('number');
  expect(await hold.release()).toBe(true);
  await locks.close();
  client.disconnect();
});
