import { existsSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, expect, it } from 'vitest';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { request } from '../../../src/testing/store-case.ts';
import { temporaryFolder } from '../../sqlite/support/folder.ts';
import { openWith } from '../../sqlite/support/libraries.ts';
import { startWorker, stopWorkers } from '../../sqlite/support/workers.ts';

const folder = temporaryFolder();
afterEach(stopWorkers);
afterAll(() => folder.remove());

const wanted = request('x', { ttlMs: 30_000 });

it('a process that reads the file, and so drops its locks, is never one of two holders', async () => {
  const path = folder.file('dropped.db');
  const holder = await startWorker(path, ['hold', 'x', 2_000]);
  await holder.said('held');
  // Any descriptor that is closed drops every POSIX lock of its process on that file.
  holder.tell(`read ${path}`);
  await holder.said('did');
  // The next process that closes the file takes itself for the last one, and removes the log that the
  // holder still writes to.
  const passer = openWith('libsql', path);
  passer.exec('SELECT count(*) FROM holdfast_hold');
  passer.close();
  expect(existsSync(`${path}-wal`)).toBe(false);
  holder.tell('renew');
  // The holder either continues on the shared file or, with libsql, learns in time that it has lost.
  const other = await startWorker(path, ['hold', 'x', 2_000]);
  const followed = other.said('held', 60_000);
  followed.catch(() => {});
  await Promise.race([followed, sleep(3_500)]);
  const isFollowed = other.messages.some((message) => 'held' in message);
  if (isFollowed) await holder.said('lost', 700);
  const isLost = holder.messages.some((message) => 'lost' in message);
  if (isLost) await followed;
  holder.tell('release');
  const released = await holder.said('released');
  // A busy machine may cost it the hold up to its release.
  const isLostByNow = holder.messages.some((message) => 'lost' in message);
  expect(released).toEqual({ released: !isLostByNow });
  expect(await other.said('held')).toBeDefined();
});

it('a database that is removed while it is open is created again, and its fences keep rising', async () => {
  const path = folder.file('removed.db');
  const store = sqliteStore(path);
  const first = await store.claim({ ...wanted, id: 'a' });
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix);
  const other = sqliteStore(path);
  const second = await other.claim({ ...wanted, id: 'b' });
  expect(first.granted && second.granted && second.fence > first.fence).toBe(true);
  // The first holder learns of the loss at its next renewal.
  expect(await store.renew({ name: 'x', id: 'a' }, { ttlMs: 1_000 })).toEqual({ held: false });
  expect((await store.claim({ ...wanted, id: 'c' })).granted).toBe(false);
  await store.close();
  await other.close();
});

it('after a statement failed because another process wrote, later statements are committed', async () => {
  const path = folder.file('busy.db');
  const store = sqliteStore(path);
  await store.claim({ ...wanted, name: 'warm', id: 'w' });
  const blocker = openWith('libsql', path);
  for (let round = 0; round < 10; round += 1) {
    const held = { ...wanted, name: `held ${round}`, id: 'a' };
    await store.claim(held);
    blocker.exec('BEGIN IMMEDIATE');
    const giveUp = new AbortController();
    const refused = store.claim({ ...wanted, name: `busy ${round}`, id: 'a' }, giveUp.signal);
    await new Promise((resolve) => setTimeout(resolve, 5));
    giveUp.abort();
    blocker.exec('COMMIT');
    await expect(refused).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    // Until the failed statement has run again, libsql does not commit what other statements write.
    expect(await store.release(held)).toBe(true);
    expect(blocker.prepare('SELECT name FROM holdfast_hold WHERE name = ?').all(held.name)).toEqual([]);
  }
  blocker.close();
  await store.close();
});
