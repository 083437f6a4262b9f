import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { LeaseStage } from '../../postgres/support/lease-stage.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { compiled } from '../../support/process/compiled.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';

const USER = fileURLToPath(new URL('./support/lease-user.ts', import.meta.url));
/** A waiter that was woken has five seconds to claim the lock. The rest is for a busy machine. */
const DELAY_MS = 9_000;

const stage = await useStage(LeaseStage.start({ settings: { max_connections: '200' } }));
const children: ChildProcess[] = [];
beforeAll(async () => {
  await stage.locks().mutex('warm').acquire();
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
});

/** A process that waits for the lock, holds it, and on a message releases it and exits. */
function user(name: string, ttlMs: number, permits = 0): ChildProcess {
  const child = fork(compiled(USER), [stage.url, name, `${ttlMs}`, `${permits}`]);
  children.push(child);
  return child;
}

async function holder(name: string, ttlMs: number, permits = 0): Promise<ChildProcess> {
  const child = user(name, ttlMs, permits);
  await once(child, 'message');
  return child;
}

async function releaseAndExit(child: ChildProcess): Promise<number> {
  const [released, exited] = [once(child, 'message'), once(child, 'exit')];
  child.send('release');
  await released;
  const releasedMs = performance.now();
  await exited;
  return releasedMs;
}

/** How long a waiter behind this many paused ones waits after a release by a process that exits. */
async function delayMs(name: string, ttlMs: number, stoppedCount: number): Promise<number> {
  const first = await holder(name, ttlMs);
  const stopped: ChildProcess[] = [];
  for (let count = 1; count <= stoppedCount; count += 1) {
    stopped.push(user(name, ttlMs));
    await stage.listening(name, count);
  }
  const pending = later(stage.locks({ ttlMs, waitMs: 200_000 }).mutex(name).acquire());
  await stage.listening(name, stoppedCount + 1);
  for (const child of stopped) child.kill('SIGSTOP');
  const releasedMs = await releaseAndExit(first);
  await (await pending).release();
  return performance.now() - releasedMs;
}

// Nearly all of the time is waiting.
vi.setConfig({ maxConcurrency: 10 });

describe.concurrent('dead waiters', () => {
  for (const ttlMs of [30_000, 120_000]) {
    it(`one stopped waiter delays the queue by a few seconds (TTL ${ttlMs})`, async () => {
      expect(await delayMs(`stopped-${ttlMs}`, ttlMs, 1)).toBeLessThan(DELAY_MS);
    });

    it(`each of two stopped waiters delays the queue by a few seconds (TTL ${ttlMs})`, async () => {
      expect(await delayMs(`two-stopped-${ttlMs}`, ttlMs, 2)).toBeLessThan(2 * DELAY_MS);
    });

    it(`one that was next for a permit delays the queue by a few seconds (TTL ${ttlMs})`, async () => {
      const name = `stopped-permits-${ttlMs}`;
      const [first] = await Promise.all([holder(name, ttlMs, 2), holder(name, ttlMs, 2)]);
      const stopped = user(name, ttlMs, 2);
      await stage.listening(name, 1);
      const lock = stage.locks({ ttlMs, waitMs: 200_000 }).semaphore(name, { permits: 2 });
      const pending = later(lock.acquire());
      await stage.listening(name, 2);
      stopped.kill('SIGSTOP');
      const releasedMs = await releaseAndExit(first);
      await (await pending).release();
      expect(performance.now() - releasedMs).toBeLessThan(DELAY_MS);
    });
  }

  it('each of three stopped waiters in a row delays the queue by a few seconds', async () => {
    expect(await delayMs('three-stopped', 120_000, 3)).toBeLessThan(3 * DELAY_MS);
  });

  it('the rows of killed waiters are gone within half a minute, while the lock stays held', async () => {
    const name = 'killed';
    const hold = await stage.locks({ ttlMs: 30_000 }).mutex(name).acquire();
    const waiters = [user(name, 30_000), user(name, 120_000)];
    await stage.listening(name, 2);
    for (const child of waiters) child.kill('SIGKILL');
    const rows = () => stage.query('SELECT id FROM holdfast.waiters WHERE name = $1', [name]);
    await eventually('they are gone', async () => (await rows()).length === 0, 30_000);
    expect((await stage.store().read(name)).map(({ granted }) => granted)).toEqual([true]);
    expect(await hold.release()).toBe(true);
  });

  it('the rows of killed waiters are gone within half a minute, while the lock is unused', async () => {
    const name = 'all killed';
    const locks = stage.locks({ ttlMs: 3_000 });
    const processes = [await holder(name, 120_000), user(name, 120_000)];
    await stage.listening(name, 1);
    for (const child of processes) child.kill('SIGKILL');
    await (await locks.mutex('another').acquire()).release();
    const rows = () => stage.query('SELECT id FROM holdfast.waiters WHERE name = $1', [name]);
    await eventually('they are gone', async () => (await rows()).length === 0, 30_000);
  });
});
