import { appendFileSync, copyFileSync, readFileSync, statSync, truncateSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, expect, it, onTestFinished } from 'vitest';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { request } from '../../../src/testing/store-case.ts';
import { temporaryFolder } from '../../sqlite/support/folder.ts';
import { openWith } from '../../sqlite/support/libraries.ts';
import { startWorker, stopWorkers } from '../../sqlite/support/workers.ts';

const folder = temporaryFolder();
afterEach(stopWorkers);
afterAll(() => folder.remove());

const wanted = request('x', { ttlMs: 30_000, wait: true });

async function claimSoon(path: string, id: string, limitMs = 20_000): Promise<bigint> {
  const store = sqliteStore(path);
  try {
    const giveUpAt = performance.now() + limitMs;
    while (performance.now() < giveUpAt) {
      const outcome = await store.claim({ ...wanted, id });
      if (outcome.granted) {
        await store.release({ name: 'x', id });
        return outcome.fence;
      }
      await sleep(20);
    }
  } finally {
    await store.close();
  }
  throw new Error('not granted');
}

it('SIGKILL at any moment of a write leaves a sound file and rising fences', async () => {
  const path = folder.file('killed.db');
  let greatest = 0n;
  for (let round = 0; round < 8; round += 1) {
    const writers = await Promise.all([0, 1].map(() => startWorker(path, ['churn', 'x'])));
    await Promise.all(writers.map((writer) => writer.said('fence')));
    await sleep(Math.random() * 40);
    for (const writer of writers) {
      writer.kill('SIGKILL');
      await writer.ended();
    }
    const given = writers.flatMap((writer) => writer.messages.map(({ fence }) => BigInt(fence as string)));
    // A fence is written before it is reported, so no fence is given twice, whichever process dies.
    expect(new Set(given).size).toBe(given.length);
    const next = await claimSoon(path, `after ${round}`);
    for (const fence of [greatest, ...given]) expect(next > fence).toBe(true);
    greatest = next;
    const database = openWith('libsql', path);
    expect(database.prepare('PRAGMA integrity_check').all()).toMatchObject([{ integrity_check: 'ok' }]);
    database.close();
  }
}, 60_000);

it('a torn last write is cut off, and what was granted before it stands', async () => {
  const path = folder.file('torn.db');
  const holder = sqliteStore(path);
  const granted = await holder.claim({ ...wanted, id: 'holder' });
  // The files as a crash would leave them, with the last write half done.
  for (const suffix of ['', '-wal']) copyFileSync(path + suffix, folder.file(`copy.db${suffix}`));
  await holder.claim({ ...wanted, name: 'y', id: 'later' });
  copyFileSync(`${path}-wal`, folder.file('copy.db-wal'));
  truncateSync(folder.file('copy.db-wal'), statSync(`${path}-wal`).size - 100);
  appendFileSync(folder.file('copy.db-wal'), 'torn');
  await holder.close();

  const store = sqliteStore(folder.file('copy.db'));
  const [claim] = await store.read('x');
  expect(claim?.id).toBe('holder');
  expect(granted.granted && claim?.fence === granted.fence).toBe(true);
  expect(await store.read('y')).toEqual([]);
  const next = await store.claim({ ...wanted, name: 'y', id: 'again' });
  expect(next.granted && granted.granted && next.fence > granted.fence).toBe(true);
  await store.close();
});

it('a child that outlives its killed parent does not keep the lock', async () => {
  const path = folder.file('forked.db');
  const ttlMs = 2_000;
  const holder = await startWorker(path, ['hold', 'x', ttlMs]);
  await holder.said('held');
  // A child that has every descriptor that it could inherit.
  holder.tell('fork');
  await holder.said('did');
  const children = readFileSync(`/proc/${holder.child.pid}/task/${holder.child.pid}/children`, 'utf8')
    .trim()
    .split(' ');
  expect(children).toHaveLength(1);
  holder.kill('SIGKILL');
  const killedAt = performance.now();
  onTestFinished(() => void process.kill(Number(children[0]), 'SIGKILL'));
  await claimSoon(path, 'next');
  // Within a second after its time to live, with room for a busy machine; the child lives for
  // twenty.
  expect(performance.now() - killedAt).toBeLessThan(ttlMs + 5_000);
});
