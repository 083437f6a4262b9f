import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { createLocks, type Store } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { request } from '../../src/testing/store-case.ts';
import { closeAndExit, EXITED_AT_ONCE } from '../support/process/close-and-exit.ts';
import { temporaryFolder } from './support/folder.ts';
import { startWorker, stopWorkers } from './support/workers.ts';

const folder = temporaryFolder();
afterEach(stopWorkers);
afterAll(() => folder.remove());

it('a process that closes it continues, and exits by itself', async () => {
  expect(await closeAndExit(`sqlite:${folder.file('left.db')}`)).toBe(EXITED_AT_ONCE);
});

describe('many processes on one file', () => {
  it('twenty of them lose no update in 1,000 of read, sleep and write', async () => {
    const file = folder.file('number');
    writeFileSync(file, '0');
    const workers = await Promise.all(
      Array.from({ length: 20 }, () => startWorker(folder.file('count.db'), ['count', 'number', file, 50])),
    );
    await Promise.all(workers.map((worker) => worker.said('counted', 100_000)));
    expect(readFileSync(file, 'utf8')).toBe('1000');
  }, 120_000);

  it('100 of 100 killed holders are followed within the time to live and a second', async () => {
    const path = folder.file('killed.db');
    const ttlMs = 6_000;
    const locks = createLocks(sqliteStore(path), { waitMs: 30_000 });
    const late: number[] = [];
    let followed = 0;
    const groups = Array.from({ length: 10 }, (_, n) =>
      Array.from({ length: 10 }, (__, m) => `job ${n}.${m}`),
    );
    const holders = await Promise.all(
      groups.map((names) => startWorker(path, ['holdMany', names.join(), ttlMs])),
    );
    const fences = await Promise.all(
      holders.map(async (holder) => (await holder.said('held')).held as string[]),
    );
    const killedAt: number[] = [];
    const followers = groups.flatMap((names, n) =>
      names.map(async (name, m) => {
        const next = await locks.mutex(name).acquire();
        const tookMs = performance.now() - (killedAt[n] ?? Number.POSITIVE_INFINITY);
        expect(next.fence > BigInt(fences[n]?.[m] ?? 0)).toBe(true);
        await next.release();
        // Within a second, with room for a busy machine.
        if (tookMs > ttlMs + 5_000 || tookMs < 0) late.push(tookMs);
        followed += 1;
      }),
    );
    for (const [n, holder] of holders.entries()) {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 40));
      killedAt[n] = performance.now();
      holder.kill('SIGKILL');
    }
    await Promise.all(followers);
    expect(followed).toBe(100);
    expect(late).toEqual([]);
    await locks.close();
  }, 120_000);

  it('a release in one process wakes a waiter in another, without polling', async () => {
    const path = folder.file('wake.db');
    const locks = createLocks(sqliteStore(path));
    const waits: number[] = [];
    for (let round = 0; round < 5; round += 1) {
      const held = await locks.mutex('wake').acquire();
      const waiter = await startWorker(path, ['wait', 'wake']);
      await waiter.said('waiting');
      // Well within the two seconds after which the first waiter asks by itself.
      await new Promise((resolve) => setTimeout(resolve, 100));
      const releasedAt = Number(process.hrtime.bigint()) / 1e6;
      await held.release();
      waits.push(((await waiter.said('granted')).atMs as number) - releasedAt);
      await waiter.ended();
    }
    expect(Math.min(...waits)).toBeLessThan(200);
    await locks.close();
  });

  it('a process that waits makes no more than a few requests in its first seconds', async () => {
    const path = folder.file('idle.db');
    const holder = sqliteStore(path);
    const waiting = sqliteStore(path);
    await holder.claim(request('x', { ttlMs: 30_000 }));
    let claims = 0;
    const counted = new Proxy(waiting, {
      get(store, key: keyof Store) {
        if (key === 'claim') claims += 1;
        const member = store[key];
        return typeof member === 'function' ? member.bind(store) : member;
      },
    });
    const locks = createLocks(counted, { waitMs: 3_000 });
    await expect(locks.mutex('x').acquire()).rejects.toMatchObject({ code: 'ACQUIRE_TIMEOUT' });
    expect(claims).toBeLessThanOrEqual(5);
    await locks.close();
    await holder.close();
  });
});
