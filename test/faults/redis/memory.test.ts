import { afterEach, describe, expect, it } from 'vitest';
import type { Hold } from '../../../src/index.ts';
import { startStage } from '../../redis/support/stage.ts';
import { LIBRARIES } from '../../support/clients/redis-clients.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually, later, renewals } from '../../support/waiting/eventually.ts';

const stage = await useStage(startStage());
afterEach(async () => {
  await stage.admin.config('SET', 'maxmemory', '0', 'maxmemory-policy', 'noeviction');
});

/** The hold is released, and the waiter holds after it. */
async function expectHandoff(hold: Hold, pending: Promise<Hold>): Promise<Hold> {
  hold.assertHeld();
  expect(await hold.release()).toBe(true);
  const next = await pending;
  expect(next.fence).toBeGreaterThan(hold.fence);
  expect(await next.release()).toBe(true);
  return next;
}

describe.each(LIBRARIES)('row 25: out of memory, under %s', (library) => {
  it('new locks are refused, and renewals, releases and handoffs still work', async () => {
    const { admin, server } = stage;
    const locks = await stage.locks(library, server.url, { ttlMs: 10_000, renewEveryMs: 400 });
    const others = await stage.locks(library, server.url);
    const name = `oom-${library}`;
    const hold = await locks.mutex(name).acquire();
    const pending = later(others.mutex(name).acquire());
    await eventually('it waits', async () => (await locks.inspect(name)).waiters.length === 1);
    await admin.config('SET', 'maxmemory', '1');

    await expect(locks.mutex(`new-${library}`).tryAcquire()).rejects.toMatchObject({
      code: 'STORE',
      applied: 'no',
    });
    await expect(locks.semaphore(`s-${library}`, { permits: 2 }).tryAcquire()).rejects.toMatchObject({
      applied: 'no',
    });
    await renewals(locks, 2);
    const next = await expectHandoff(hold, pending);

    await admin.config('SET', 'maxmemory', '0');
    const after = await locks.mutex(`new-${library}`).acquire();
    expect(after.fence).toBeGreaterThan(next.fence);
    await after.release();
    await eventually('nothing is left', async () => (await admin.keys('*')).length === 1);
  });
});

it('row 25: out of memory: shared holds, permits and waiters still work too', async () => {
  const { admin, server } = stage;
  const locks = await stage.locks('ioredis', server.url, { ttlMs: 6_000, renewEveryMs: 400 });
  const others = await stage.locks('ioredis', server.url);
  for (const [name, holder, waiter, options] of [
    ['oom-rw', locks.readWriteLock('oom-rw').read, others.readWriteLock('oom-rw').write, {}],
    ['oom-rw2', locks.readWriteLock('oom-rw2').write, others.readWriteLock('oom-rw2').read, {}],
    [
      'oom-s',
      locks.semaphore('oom-s', { permits: 2 }),
      others.semaphore('oom-s', { permits: 2 }),
      { permits: 2 },
    ],
  ] as const) {
    const hold = await holder.acquire(options);
    const pending = later(waiter.acquire(options));
    await eventually('it waits', async () => (await locks.inspect(name)).waiters.length === 1);
    await admin.config('SET', 'maxmemory', '1');
    // The waiter entered more than a second ago, so it has to confirm its grant.
    await renewals(locks, 4);
    await expectHandoff(hold, pending);
    await admin.config('SET', 'maxmemory', '0');
  }
});

describe('row 26: a server that evicts', () => {
  it.each(['allkeys-random', 'allkeys-lru', 'volatile-ttl'])(
    'is refused under %s, with a hint',
    async (policy) => {
      const { admin, server } = stage;
      await admin.config('SET', 'maxmemory', '100mb', 'maxmemory-policy', policy);
      const locks = await stage.locks('ioredis', server.url);
      await expect(locks.mutex('x').acquire()).rejects.toMatchObject({
        code: 'UNSUPPORTED',
        message: expect.stringContaining('allowEviction'),
      });
      // The same store works once the server is configured.
      await admin.config('SET', 'maxmemory-policy', 'noeviction');
      expect(await (await locks.mutex('x').acquire()).release()).toBe(true);
    },
  );

  it('evicts a lock if it was accepted: the holder is notified within one renewal', async () => {
    const { admin, server } = stage;
    await admin.config('SET', 'maxmemory', '3mb', 'maxmemory-policy', 'allkeys-random');
    const locks = await stage.locks('ioredis', server.url, {
      ttlMs: 15_000,
      renewEveryMs: 400,
      allowEviction: true,
    });
    const hold = await locks.mutex('evicted').acquire();
    const filler = 'x'.repeat(10_000);
    for (let n = 0; (await admin.exists('holdfast:evicted')) === 1; n += 1) {
      expect(n).toBeLessThan(20_000);
      await admin.set(`fill-${n}`, filler);
    }
    const next = await locks.mutex('evicted').tryAcquire();
    await eventually('the holder is notified', () => hold.signal.aborted, 10_000);
    expect(hold.signal.reason).toMatchObject({ code: 'HOLD_LOST', how: 'taken' });
    if (next !== null) expect(next.fence).toBeGreaterThan(hold.fence);
    await admin.flushall();
  });
});

describe.each(LIBRARIES)('row 27: other programs change our keys, under %s', (library) => {
  it.each(['FLUSHALL', 'DEL'])(
    '%s: the hold is lost within one renewal, and the next fence is greater',
    async (how) => {
      const { admin, server } = stage;
      const locks = await stage.locks(library, server.url, { ttlMs: 15_000, renewEveryMs: 400 });
      const name = `wiped-${how}-${library}`;
      const hold = await locks.mutex(name).acquire();
      const readers = await locks.readWriteLock(`${name}-rw`).read.acquire();
      if (how === 'FLUSHALL') await admin.flushall();
      else await admin.del(`holdfast:${name}`, `holdfast:${name}-rw`);
      const next = await locks.mutex(name).acquire();
      expect(next.fence).toBeGreaterThan(hold.fence);
      await eventually('both are notified', () => hold.signal.aborted && readers.signal.aborted, 10_000);
      expect(hold.signal.reason).toMatchObject({ how: 'taken' });
      expect(await next.release()).toBe(true);
      const writer = await locks.readWriteLock(`${name}-rw`).write.acquire();
      expect(writer.fence).toBeGreaterThan(readers.fence);
      await writer.release();
    },
  );

  it('a key of another type fails its own claim only, and is not overwritten', async () => {
    const { admin, server } = stage;
    const locks = await stage.locks(library, server.url);
    await admin.lpush(`holdfast:list-${library}`, 'theirs');
    const results = await Promise.allSettled(
      [`before-${library}`, `list-${library}`, `after-${library}`].map((name) =>
        locks.mutex(name).tryAcquire(),
      ),
    );
    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(results[1]).toMatchObject({
      reason: { code: 'STORE', applied: 'no', message: expect.stringContaining('WRONGTYPE') },
    });
    expect(await admin.lrange(`holdfast:list-${library}`, 0, -1)).toEqual(['theirs']);
    for (const result of results) if (result.status === 'fulfilled') await result.value?.release();
    await expect(locks.semaphore(`list-${library}`, { permits: 2 }).tryAcquire()).rejects.toMatchObject({
      applied: 'no',
    });
    await admin.del(`holdfast:list-${library}`);
  });
});
