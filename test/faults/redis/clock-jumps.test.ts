import { afterAll, beforeAll, expect, it } from 'vitest';
import { redisStore } from '../../../src/stores/redis/index.ts';
import { request } from '../../../src/testing/store-case.ts';
import { makeClockShim } from '../../../src/torture/servers/clock-shim.ts';
import { type Stage, startStage } from '../../redis/support/stage.ts';
import { eventually, later, renewals } from '../../support/waiting/eventually.ts';

const shim = makeClockShim();
let stage: Stage;
beforeAll(async () => {
  stage = await startStage({ env: shim.env });
});
afterAll(async () => {
  await stage[Symbol.asyncDispose]();
  shim.remove();
});

const serverSeconds = async (): Promise<number> => Number((await stage.admin.time())[0]);

it('row 35: the server clock jumps forward: the holder is notified soon, and fences rise', async () => {
  shim.set(0);
  const locks = await stage.locks('ioredis', stage.server.url, { ttlMs: 15_000, renewEveryMs: 500 });
  const others = await stage.locks('node-redis', stage.server.url);
  const hold = await locks.mutex('forward').acquire();
  const shared = await locks.readWriteLock('forward-rw').read.acquire();
  const before = await serverSeconds();
  shim.set(120);
  expect(await serverSeconds()).toBeGreaterThanOrEqual(before + 120);
  const next = await others.mutex('forward').acquire();
  const writer = await others.readWriteLock('forward-rw').write.acquire();
  expect(next.fence).toBeGreaterThan(hold.fence);
  expect(writer.fence).toBeGreaterThan(shared.fence);
  await eventually('the first is notified', () => hold.signal.aborted && shared.signal.aborted, 10_000);
  for (const { reason } of [hold.signal, shared.signal]) expect(reason).toMatchObject({ how: 'taken' });
  next.assertHeld();
  await next.release();
  await writer.release();
});

it('row 35: the server clock jumps back: holds continue, fences rise, eviction works', async () => {
  shim.set(600);
  const locks = await stage.locks('ioredis', stage.server.url, { ttlMs: 10_000, renewEveryMs: 400 });
  const others = await stage.locks('node-redis', stage.server.url);
  const hold = await locks.mutex('back').acquire();
  const dead = await locks.mutex('dead').acquire({ ttlMs: 3_000, renew: false });
  shim.set(0);
  await renewals(locks, 2);
  hold.assertHeld();
  expect(await hold.release()).toBe(true);
  const next = await others.mutex('back').acquire();
  expect(next.fence).toBeGreaterThan(hold.fence);
  await next.release();

  // Its lease has expired by every other clock, but lasts ten minutes more by that of the server.
  await eventually('it is over', () => dead.remainingMs === 0);
  expect(() => dead.assertHeld()).toThrow();
  const view = await others.inspect('dead');
  expect(view.holders[0]?.expiresInMs).toBeGreaterThan(500_000);
  expect(await others.evict('dead', { id: dead.id })).toBe(true);
  const after = await others.mutex('dead').acquire();
  expect(after.fence).toBeGreaterThan(dead.fence);
  // The age counts from the time of the grant, also while fences are ahead of the clock.
  const [holder] = (await others.inspect('dead')).holders;
  expect(holder?.heldForMs).toBeLessThan(60_000);
  await after.release();
});

it('row 35: the server clock starts at 0, as without a battery: fences still rise', async () => {
  shim.set(0);
  const locks = await stage.locks('ioredis', stage.server.url, { renew: false });
  const others = await stage.locks('node-redis', stage.server.url);
  let before = 0n;
  const next = (fence: bigint): void => {
    expect(fence).toBeGreaterThan(before);
    before = fence;
  };
  const first = await locks.mutex('1970').acquire();
  next(first.fence);
  shim.set(30 * 86_400 - (await serverSeconds()));
  expect(await serverSeconds()).toBeLessThan(31 * 86_400);
  await others.evict('1970', { id: first.id });
  for (const forget of [false, true]) {
    if (forget) await stage.admin.flushall();
    for (let turn = 0; turn < 2; turn += 1) {
      const hold = await locks.mutex('1970').acquire();
      next(hold.fence);
      const waiting = later(others.mutex('1970').acquire());
      await eventually('it waits', async () => (await locks.inspect('1970')).waiters.length === 1);
      await hold.release();
      const [one, two] = [await waiting, await locks.readWriteLock('1970-rw').read.acquire()];
      next(one.fence);
      next(two.fence);
      expect((await locks.inspect('1970')).holders[0]?.heldForMs).toBeLessThan(60_000);
      await one.release();
      await two.release();
    }
  }
  shim.set(0);
});

it('a queue position of a claim that does not ask again expires', async () => {
  shim.set(0);
  const store = redisStore(stage.admin);
  const claim = (id: string, ttlMs: number) => store.claim(request('places', { id, ttlMs, wait: true }));
  expect(await claim('holder', 600_000)).toMatchObject({ granted: true });
  expect(await claim('silent', 1_000)).toMatchObject({ granted: false });
  const kept = await claim('asking', 1_000);
  expect(kept).toMatchObject({ granted: false });
  if (!kept.granted) expect(kept.retryAfterMs).toBeLessThan(120_000);
  // A queue position lives for two minutes after each claim.
  shim.set(100);
  await claim('asking', 1_000);
  shim.set(130);
  expect((await store.read('places')).map(({ id }) => id)).toEqual(['holder', 'asking']);
  await store.release({ name: 'places', id: 'holder' });
  expect((await store.read('places')).map(({ id, granted }) => [id, granted])).toEqual([['asking', true]]);
  await store.release({ name: 'places', id: 'asking' });
  expect((await stage.admin.keys('*places*')).length).toBe(0);
  await store.close();
});

it('keys of a crashed process expire by themselves', async () => {
  shim.set(0);
  const store = redisStore(stage.admin);
  const wanted = request('left', { ttlMs: 30_000, wait: true, note: '{"a":1}' });
  for (const id of ['a', 'b']) await store.claim({ ...wanted, id, mode: { kind: 'shared' } });
  await store.claim({ ...wanted, id: 'c' });
  await store.claim({ ...wanted, name: 'left alone', id: 'd' });
  expect((await stage.admin.keys('*left*')).length).toBe(5);
  shim.set(15 * 60);
  expect(await stage.admin.keys('*left*')).toEqual([]);
  await store.close();
});
