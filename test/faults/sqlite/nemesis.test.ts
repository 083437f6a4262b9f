import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, expect, it } from 'vitest';
import { temporaryFolder } from '../../sqlite/support/folder.ts';
import { openWith } from '../../sqlite/support/libraries.ts';
import { startWorker, stopWorkers, type Worker } from '../../sqlite/support/workers.ts';

const folder = temporaryFolder();
afterEach(stopWorkers);
afterAll(() => folder.remove());

const LASTS_MS = 9_000;
const WORKERS = 5;

it('no update is lost while holders are paused past their time to live and killed at random', async () => {
  const file = folder.file('ledger.db');
  const database = openWith('libsql', file);
  database.exec(
    `PRAGMA journal_mode = WAL;
      CREATE TABLE entry (number INTEGER PRIMARY KEY, fence INTEGER, balance INTEGER)`,
  );
  const start = async (): Promise<Worker> =>
    await startWorker(folder.file('locks.db'), ['ledger', 'x', file]);
  const workers = await Promise.all(Array.from({ length: WORKERS }, start));
  const gone: Worker[] = [];
  await Promise.race(workers.map((worker) => worker.said('wrote')));
  const endAt = performance.now() + LASTS_MS;
  let pauses = 0;
  for (let turn = 1; performance.now() < endAt; turn += 1) {
    const n = Math.floor(Math.random() * WORKERS);
    const victim = workers[n];
    if (victim === undefined) continue;
    // Which process is killed is random, but in each round one is.
    if (turn % 3 === 0) {
      victim.kill('SIGKILL');
      gone.push(victim);
      workers[n] = await start();
    } else {
      pauses += 1;
      victim.kill('SIGSTOP');
      await sleep(200 + Math.random() * 1_800);
      victim.kill('SIGCONT');
    }
    await sleep(Math.random() * 200);
  }
  await stopWorkers();
  const entries = database
    .prepare('SELECT CAST(fence AS TEXT) AS fence, balance FROM entry ORDER BY number')
    .all() as { fence: string; balance: number }[];
  database.close();
  // Each write counted all before it: none was made from a balance that had changed meanwhile.
  expect(entries.map(({ balance }) => balance)).toEqual(entries.map((_, n) => n + 1));
  const fences = entries.map(({ fence }) => BigInt(fence));
  expect(fences.every((fence, n) => n === 0 || fence > (fences[n - 1] ?? 0n))).toBe(true);
  // Otherwise the test has shown nothing.
  expect({ wrote: entries.length > 20, pauses: pauses > 2, kills: gone.length > 0 }).toEqual({
    wrote: true,
    pauses: true,
    kills: true,
  });
}, 60_000);
