import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { isGone, newProcessTag } from '../../../src/stores/sqlite/process-tag.ts';
import { temporaryFolder } from '../../sqlite/support/folder.ts';
import { openWith } from '../../sqlite/support/libraries.ts';
import { startWorker, stopWorkers, type Worker } from '../../sqlite/support/workers.ts';
import { eventually, later, shortest } from '../../support/waiting/eventually.ts';

/**
 * Six seconds, and room for a busy machine. The queue position of a waiter that does not come lives for half
 * a minute.
 */
const DELAY_MS = 10_000;

const folder = temporaryFolder();
afterAll(async () => {
  await stopWorkers();
  folder.remove();
});

/** Resolves when this many claims wait for the lock. */
async function queued(path: string, count: number): Promise<void> {
  const locks = createLocks(sqliteStore(path));
  const giveUpAt = performance.now() + 20_000;
  while ((await locks.inspect('x')).waiters.length < count && performance.now() < giveUpAt) await sleep(20);
  expect((await locks.inspect('x')).waiters).toHaveLength(count);
  await locks.close();
}

/** A waiter that loses its wake file makes it again, perhaps while the folder is being removed. */
function moveWakeFolder(path: string): string {
  const moved = `${path}-moved`;
  // In one step: a process that sees its file removed makes it again.
  renameSync(`${path}-wake`, moved);
  return moved;
}

it.concurrent('a waiter that was killed is passed over at once', async () => {
  const path = folder.file('dead.db');
  const locks = createLocks(sqliteStore(path), { waitMs: 30_000 });
  const hold = await locks.mutex('x').acquire();
  const dead = await startWorker(path, ['wait', 'x']);
  await queued(path, 1);
  const next = later(locks.mutex('x').acquire());
  await queued(path, 2);
  dead.kill('SIGKILL');
  await dead.ended();
  const releasedAt = performance.now();
  await hold.release();
  const got = await next;
  // Otherwise its queue position would live for half a minute.
  expect(performance.now() - releasedAt).toBeLessThan(10_000);
  await got.release();
  await locks.close();
});

it.concurrent('a waiter in a process that /proc hides keeps its queue position', async () => {
  const path = folder.file('hidden.db');
  const locks = createLocks(sqliteStore(path));
  const hold = await locks.mutex('x').acquire();
  const hidden = await startWorker(path, ['wait', 'x']);
  await queued(path, 1);
  const [first] = (await locks.inspect('x')).waiters;
  // For this worker alone, as `hidepid` does it for the processes of other users.
  const hide = `mount -t tmpfs none /proc/${hidden.child.pid} && exec "$@"`;
  const under = ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', hide, 'sh'];
  const second = await startWorker(path, ['wait', 'x'], { under });
  await second.said('waiting');
  await queued(path, 2);
  expect((await locks.inspect('x')).waiters[0]?.id).toBe(first?.id);
  await hold.release();
  for (const each of [hidden, second]) expect(await each.said('granted')).toBeDefined();
  await locks.close();
});

it.concurrent('a waiter whose wake folder is replaced by a file is still granted', async () => {
  const path = folder.file('unreachable.db');
  const locks = createLocks(sqliteStore(path), { waitMs: 30_000 });
  const hold = await locks.mutex('x').acquire();
  const next = later(locks.mutex('x').acquire());
  await queued(path, 1);
  const moved = moveWakeFolder(path);
  writeFileSync(`${path}-wake`, 'no folder any more');
  rmSync(moved, { recursive: true });
  // The system reports the removal. An exception in that event would end this process.
  await sleep(200);
  await hold.release();
  await (await next).release();
  await locks.close();
});

describe.concurrent('a waiter that is paused when its turn comes', () => {
  /** From the release until the next waiter of this process was granted. */
  async function delayMs(
    path: string,
    holder: Worker,
    stopped: readonly Worker[],
    waiters = stopped.length,
  ): Promise<number> {
    const locks = createLocks(sqliteStore(path), { waitMs: 60_000, ttlMs: 120_000 });
    await queued(path, waiters);
    for (const each of stopped) each.kill('SIGSTOP');
    const next = later(locks.mutex('x').acquire());
    await queued(path, waiters + 1);
    holder.tell('release');
    await holder.said('released');
    const releasedAt = performance.now();
    const got = await next;
    const tookMs = performance.now() - releasedAt;
    for (const each of stopped) each.kill('SIGCONT');
    await sleep(100);
    await got.release();
    for (const each of stopped) expect(await each.said('granted')).toBeDefined();
    await locks.close();
    return tookMs;
  }

  it.each([5_000, 120_000])(
    'delays the queue by at most six seconds after the holder has exited, and is granted later (%d ms)',
    async (ttlMs) => {
      const path = folder.file(`stopped-${ttlMs}.db`);
      const holder = await startWorker(path, ['hold', 'x', ttlMs]);
      await holder.said('held');
      const stopped = await startWorker(path, ['wait', 'x', ttlMs]);
      expect(await delayMs(path, holder, [stopped])).toBeLessThan(DELAY_MS);
    },
  );

  it('delays it no longer when it waits for the lock many times', async () => {
    const path = folder.file('stopped-many.db');
    const holder = await startWorker(path, ['hold', 'x', 30_000]);
    await holder.said('held');
    const stopped = await startWorker(path, ['wait', 'x', 30_000, 5]);
    expect(await delayMs(path, holder, [stopped], 5)).toBeLessThan(DELAY_MS);
  });

  it('delays it by six seconds at most together with another', async () => {
    const path = folder.file('stopped-two.db');
    const holder = await startWorker(path, ['hold', 'x', 30_000]);
    await holder.said('held');
    const first = await startWorker(path, ['wait', 'x', 30_000]);
    await queued(path, 1);
    const second = await startWorker(path, ['wait', 'x', 30_000]);
    expect(await delayMs(path, holder, [first, second])).toBeLessThan(2 * DELAY_MS);
  }, 60_000);
});

it.concurrent('the rows of killed waiters are gone within a minute, whatever their TTL', async () => {
  const path = folder.file('rows.db');
  const locks = createLocks(sqliteStore(path));
  const hold = await locks.mutex('x').acquire({ ttlMs: 3_600_000 });
  const waiters = await Promise.all([1, 2, 3].map(() => startWorker(path, ['wait', 'x', 3_600_000])));
  await queued(path, 3);
  for (const each of waiters) each.kill('SIGKILL');
  const rows = (): number => {
    const database = openWith('libsql', path);
    try {
      return database.prepare('SELECT 1 FROM holdfast_queue').all().length;
    } finally {
      database.close();
    }
  };
  expect(rows()).toBe(3);
  await eventually('the rows are gone', () => rows() === 0, 60_000);
  await hold.release();
  await locks.close();
}, 90_000);

it.concurrent('a holder and the first waiter killed together are replaced within the TTL', async () => {
  const path = folder.file('both.db');
  const locks = createLocks(sqliteStore(path), { waitMs: 30_000 });
  const ttlMs = 5_000;
  const holder = await startWorker(path, ['hold', 'x', ttlMs]);
  await holder.said('held');
  const first = await startWorker(path, ['hold', 'x', ttlMs]);
  await queued(path, 1);
  const next = later(locks.mutex('x').acquire());
  await queued(path, 2);
  first.kill('SIGKILL');
  holder.kill('SIGKILL');
  const killedAt = performance.now();
  const got = await next;
  // With time for a busy machine. The queue position of the killed waiter would live for half a minute.
  expect(performance.now() - killedAt).toBeLessThan(ttlMs + 5_000);
  await got.release();
  await locks.close();
});

it.concurrent('a killed holder that was granted after the waiter asked is replaced in time', async () => {
  const path = folder.file('later.db');
  const locks = createLocks(sqliteStore(path), { waitMs: 30_000 });
  const hold = await locks.mutex('x').acquire({ ttlMs: 30_000 });
  // Ahead of the waiter, with a much shorter TTL than the holder that the waiter saw when it asked.
  const ahead = await startWorker(path, ['hold', 'x', 1_000]);
  await queued(path, 1);
  const next = later(locks.mutex('x').acquire());
  await queued(path, 2);
  await hold.release();
  await ahead.said('held');
  ahead.kill('SIGKILL');
  const killedAt = performance.now();
  const got = await next;
  // A second, with time for a busy machine. The holder that the waiter saw had half a minute left.
  expect(performance.now() - killedAt).toBeLessThan(7_000);
  await got.release();
  await locks.close();
});

it.concurrent('a wake-up that is lost costs two seconds, not the lock', async () => {
  const path = folder.file('deaf.db');
  const locks = createLocks(sqliteStore(path));
  const hold = await locks.mutex('x').acquire();
  const waiter = await startWorker(path, ['wait', 'x']);
  await queued(path, 1);
  await eventually(
    'the waiter has a wake file',
    () => existsSync(`${path}-wake`) && readdirSync(`${path}-wake`).length > 0,
  );
  moveWakeFolder(path);
  const releasedAt = performance.now();
  await hold.release();
  await waiter.said('granted');
  expect(performance.now() - releasedAt).toBeLessThan(10_000);
  await locks.close();
});

it.concurrent('where the system gives no wake-ups, waiters ask often instead', async () => {
  const path = folder.file('no-watch.db');
  // The wake folder cannot be created where a file is.
  writeFileSync(`${path}-wake`, '');
  const locks = createLocks(sqliteStore(path));
  const handoff = async (): Promise<number> => {
    const hold = await locks.mutex('x').acquire();
    const waiter = await startWorker(path, ['wait', 'x']);
    await queued(path, 1);
    await sleep(200);
    const releasedAt = performance.now();
    await hold.release();
    await waiter.said('granted');
    return performance.now() - releasedAt;
  };
  expect(await shortest(1_500, handoff)).toBeLessThan(1_500);
  await locks.close();
});

it.concurrent('the wake files of dead processes are cleared away', async () => {
  const path = folder.file('litter.db');
  const locks = createLocks(sqliteStore(path));
  const hold = await locks.mutex('x').acquire();
  for (let n = 0; n < 3; n += 1) {
    const waiter = await startWorker(path, ['wait', 'x']);
    await waiter.said('waiting');
    await queued(path, 1);
    await sleep(100);
    waiter.kill('SIGKILL');
    await waiter.ended();
    const database = openWith('libsql', path);
    database.exec('DELETE FROM holdfast_queue');
    database.close();
  }
  const waiter = await startWorker(path, ['wait', 'x']);
  await queued(path, 1);
  // The file that announces evictions is shared by all processes, and stays.
  const wakeFiles = (): string[] => readdirSync(`${path}-wake`).filter((file) => file !== 'evicted');
  await eventually('one wake file is left', () => wakeFiles().length === 1);
  await hold.release();
  await waiter.ended();
  expect(wakeFiles()).toEqual([]);
  await locks.close();
});

it.concurrent('a process is identified by more than its pid, which another process may have later', () => {
  const mine = newProcessTag();
  expect(isGone(mine)).toBe(false);
  const [namespace, pid, start, random] = mine.split('-');
  expect(isGone([namespace, pid, Number(start) - 1, random].join('-'))).toBe(true);
  expect(isGone([namespace, 2 ** 22 + 1, start, random].join('-'))).toBe(true);
  // A process in another container cannot be seen.
  expect(isGone([Number(namespace) + 1, 2 ** 22 + 1, start, random].join('-'))).toBe(false);
  expect(isGone('something else')).toBe(false);
});

it.concurrent('a process that has ended is gone, also before its parent asks how', async () => {
  const parent = spawn('sh', ['-c', 'sleep 60 & echo $!; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  try {
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(`${line}`);
    const stat = (of: number | undefined): string[] => readFileSync(`/proc/${of}/stat`, 'utf8').split(' ');
    const [namespace, , , random] = newProcessTag().split('-');
    const tag = [namespace, pid, stat(pid)[21], random].join('-');
    expect(isGone(tag)).toBe(false);
    // `sleep` never asks for a child.
    await eventually('the parent is no shell any more', () => stat(parent.pid)[1] === '(sleep)');
    process.kill(pid, 'SIGKILL');
    await eventually('it has ended', () => stat(pid)[2] === 'Z');
    expect(isGone(tag)).toBe(true);
  } finally {
    parent.kill('SIGKILL');
  }
});
