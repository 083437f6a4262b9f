import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, expect, it } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { isGone, newMark } from '../../../src/stores/sqlite/process-mark.ts';
import { temporaryFolder } from '../../sqlite/support/folder.ts';
import { openWith } from '../../sqlite/support/libraries.ts';
import { startWorker, stopWorkers } from '../../sqlite/support/workers.ts';
import { later, shortest } from '../../support/patience.ts';

const folder = temporaryFolder();
afterEach(stopWorkers);
afterAll(() => folder.remove());

async function inLine(path: string, count: number): Promise<void> {
  const locks = createLocks(sqliteStore(path));
  const giveUpAt = performance.now() + 20_000;
  while ((await locks.inspect('x')).waiters.length < count && performance.now() < giveUpAt) await sleep(20);
  expect((await locks.inspect('x')).waiters).toHaveLength(count);
  await locks.close();
}

it('a waiter that was killed is passed over at once', async () => {
  const path = folder.file('dead.db');
  const locks = createLocks(sqliteStore(path), { waitMs: 30_000 });
  const hold = await locks.mutex('x').acquire();
  const dead = await startWorker(path, ['wait', 'x']);
  await inLine(path, 1);
  const next = later(locks.mutex('x').acquire());
  await inLine(path, 2);
  dead.kill('SIGKILL');
  await dead.ended();
  const releasedAt = performance.now();
  await hold.release();
  const got = await next;
  // Its place would live for half a minute otherwise.
  expect(performance.now() - releasedAt).toBeLessThan(10_000);
  await got.release();
  await locks.close();
});

it('a waiter whose folder of wake-ups is put out of reach goes on without', async () => {
  const path = folder.file('unreachable.db');
  const locks = createLocks(sqliteStore(path), { waitMs: 30_000 });
  const hold = await locks.mutex('x').acquire();
  const next = later(locks.mutex('x').acquire());
  await inLine(path, 1);
  rmSync(`${path}-wake`, { recursive: true });
  writeFileSync(`${path}-wake`, 'no folder any more');
  // The system tells of it. What that comes to must not end this process.
  await sleep(200);
  await hold.release();
  await (await next).release();
  await locks.close();
});

it('a waiter that is stopped when its turn comes loses its place after some seconds, and gets in later', async () => {
  const path = folder.file('stopped.db');
  const locks = createLocks(sqliteStore(path), { waitMs: 30_000, ttlMs: 2_000 });
  const hold = await locks.mutex('x').acquire();
  const stopped = await startWorker(path, ['wait', 'x']);
  await inLine(path, 1);
  stopped.kill('SIGSTOP');
  const next = later(locks.mutex('x').acquire());
  await inLine(path, 2);
  const releasedAt = performance.now();
  await hold.release();
  const got = await next;
  expect(performance.now() - releasedAt).toBeLessThan(20_000);
  stopped.kill('SIGCONT');
  await sleep(100);
  await got.release();
  expect(await stopped.said('granted')).toBeDefined();
  await locks.close();
});

it('a holder and the first in line killed together are followed within the time to live and a second', async () => {
  const path = folder.file('both.db');
  const locks = createLocks(sqliteStore(path), { waitMs: 30_000 });
  const ttlMs = 1_500;
  const holder = await startWorker(path, ['hold', 'x', ttlMs]);
  await holder.said('held');
  const first = await startWorker(path, ['hold', 'x', ttlMs]);
  await inLine(path, 1);
  const next = later(locks.mutex('x').acquire());
  await inLine(path, 2);
  first.kill('SIGKILL');
  holder.kill('SIGKILL');
  const killedAt = performance.now();
  const got = await next;
  // With room for a busy machine; the place of the one that was killed would live for half a minute.
  expect(performance.now() - killedAt).toBeLessThan(ttlMs + 5_000);
  await got.release();
  await locks.close();
});

it('a holder that came after us in our view, and is killed, is followed in time as well', async () => {
  const path = folder.file('later.db');
  const locks = createLocks(sqliteStore(path), { waitMs: 30_000 });
  const hold = await locks.mutex('x').acquire({ ttlMs: 30_000 });
  // Ahead of us, and with a much shorter time to live than the holder we saw when we asked.
  const ahead = await startWorker(path, ['hold', 'x', 1_000]);
  await inLine(path, 1);
  const next = later(locks.mutex('x').acquire());
  await inLine(path, 2);
  await hold.release();
  await ahead.said('held');
  ahead.kill('SIGKILL');
  const killedAt = performance.now();
  const got = await next;
  // A second later, with room for a busy machine; what we saw when we asked had half a minute.
  expect(performance.now() - killedAt).toBeLessThan(7_000);
  await got.release();
  await locks.close();
});

it('a wake-up that cannot be delivered costs two seconds, not the lock', async () => {
  const path = folder.file('deaf.db');
  const locks = createLocks(sqliteStore(path));
  const hold = await locks.mutex('x').acquire();
  const waiter = await startWorker(path, ['wait', 'x']);
  await inLine(path, 1);
  await expect.poll(() => readdirSync(`${path}-wake`).length).toBeGreaterThan(0);
  rmSync(`${path}-wake`, { recursive: true });
  const releasedAt = performance.now();
  await hold.release();
  await waiter.said('granted');
  expect(performance.now() - releasedAt).toBeLessThan(10_000);
  await locks.close();
});

it('where the system gives no wake-ups at all, waiters ask often instead', async () => {
  const path = folder.file('no-watch.db');
  // No folder can be made where a file is.
  writeFileSync(`${path}-wake`, '');
  const locks = createLocks(sqliteStore(path));
  const handOver = async (): Promise<number> => {
    const hold = await locks.mutex('x').acquire();
    const waiter = await startWorker(path, ['wait', 'x']);
    await inLine(path, 1);
    await sleep(200);
    const releasedAt = performance.now();
    await hold.release();
    await waiter.said('granted');
    return performance.now() - releasedAt;
  };
  expect(await shortest(1_500, handOver)).toBeLessThan(1_500);
  await locks.close();
});

it('the wake files of dead processes are cleared away', async () => {
  const path = folder.file('litter.db');
  const locks = createLocks(sqliteStore(path));
  const hold = await locks.mutex('x').acquire();
  for (let n = 0; n < 3; n += 1) {
    const waiter = await startWorker(path, ['wait', 'x']);
    await waiter.said('waiting');
    await inLine(path, 1);
    await sleep(100);
    waiter.kill('SIGKILL');
    await waiter.ended();
    const database = openWith('libsql', path);
    database.exec('DELETE FROM holdfast_line');
    database.close();
  }
  const waiter = await startWorker(path, ['wait', 'x']);
  await inLine(path, 1);
  await expect.poll(() => readdirSync(`${path}-wake`)).toHaveLength(1);
  await hold.release();
  await waiter.ended();
  expect(readdirSync(`${path}-wake`)).toHaveLength(0);
  await locks.close();
});

it('a process is known by more than its number, which another may have by now', () => {
  const mine = newMark();
  expect(isGone(mine)).toBe(false);
  const [namespace, pid, start, random] = mine.split('-');
  expect(isGone([namespace, pid, Number(start) - 1, random].join('-'))).toBe(true);
  expect(isGone([namespace, 2 ** 22 + 1, start, random].join('-'))).toBe(true);
  // In another container nothing is known of it.
  expect(isGone([Number(namespace) + 1, 2 ** 22 + 1, start, random].join('-'))).toBe(false);
  expect(isGone('something else')).toBe(false);
});
