import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, expect, it } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { request } from '../../../src/testing/store-case.ts';
import { temporaryFolder } from '../../sqlite/support/folder.ts';
import { startWorker, stopWorkers } from '../../sqlite/support/workers.ts';
import { later } from '../../support/waiting/eventually.ts';
import { renewed } from '../../support/waiting/renewed.ts';

const folder = temporaryFolder();
afterEach(stopWorkers);
afterAll(() => folder.remove());

const wanted = request('x', { ttlMs: 30_000 });

it('a process that is paused in the middle of a write does not block another', async () => {
  const path = folder.file('stopped.db');
  const store = sqliteStore(path);
  const locks = createLocks(store, { waitMs: 20_000 });
  await (await locks.mutex('warm').acquire()).release();
  const writer = await startWorker(path, ['stick']);
  await writer.said('stuck');
  writer.kill('SIGSTOP');

  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  let ticks = 0;
  const ticker = setInterval(() => {
    ticks += 1;
  }, 5);
  // The store reports that it had no effect, and the core keeps asking until its own limit.
  await expect(store.claim({ ...wanted, id: 'a' })).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  const waiting = later(locks.mutex('x').acquire());
  await sleep(1_000);
  delay.disable();
  clearInterval(ticker);
  expect(ticks).toBeGreaterThan(100);
  // SQLite's own time-out would show as stalls of its whole length, one after the other.
  expect(delay.percentile(90) / 1e6).toBeLessThan(100);

  writer.kill('SIGCONT');
  writer.tell('go on');
  const hold = await waiting;
  expect(hold.remainingMs).toBeGreaterThan(0);
  await hold.release();
  await locks.close();
});

it('a hold is kept through a short stop of another writer, and lost in time through a long one', async () => {
  const path = folder.file('renewal.db');
  const locks = createLocks(sqliteStore(path), { ttlMs: 8_000 });
  const hold = await locks.mutex('x').acquire();
  const stop = async (meanwhile: () => Promise<unknown>): Promise<void> => {
    const writer = await startWorker(path, ['stick']);
    await writer.said('stuck');
    writer.kill('SIGSTOP');
    await meanwhile();
    writer.kill('SIGCONT');
    writer.tell('go on');
    await writer.ended();
  };
  await stop(() => sleep(600));
  await renewed(hold);
  await stop(() => expect.poll(() => hold.signal.aborted).toBe(true));
  expect(hold.signal.reason).toMatchObject({ code: 'HOLD_LOST', how: 'expired' });
  await locks.close();
});

it('opening a database that a paused process is writing to does not block the event loop', async () => {
  const path = folder.file('opening.db');
  await sqliteStore(path).close();
  const writer = await startWorker(path, ['stick']);
  await writer.said('stuck');
  const store = sqliteStore(path);
  await expect(store.claim({ ...wanted, id: 'b' })).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  writer.tell('go on');
  await writer.ended();
  expect((await store.claim({ ...wanted, id: 'b' })).granted).toBe(true);
  await store.close();
});
