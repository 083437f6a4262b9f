import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Locks, openLocks } from '../../src/index.ts';
import type { Backend } from '../../src/torture/backends/backend.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { later } from '../support/waiting/eventually.ts';
import { startBlocked } from './support/blocked-process.ts';

// Nearly all of the time is spent waiting.
vi.setConfig({ maxConcurrency: 10 });

const TTL_MS = 3_000;
const STORES = ['sqlite', 'redis', 'redlock', 'postgres', 'advisory', 'mysql', 'etcd', 'zookeeper'] as const;
type StoreName = (typeof STORES)[number];
/** Four TTLs; on session stores more than the session is trusted for. */
const BLOCK_MS: Readonly<Record<StoreName, number>> = {
  sqlite: 4 * TTL_MS,
  redis: 4 * TTL_MS,
  redlock: 4 * TTL_MS,
  postgres: 4 * TTL_MS,
  advisory: 10_000,
  mysql: 4 * TTL_MS,
  etcd: 4 * TTL_MS,
  zookeeper: 4 * TTL_MS,
};

const backends: Backend[] = [];
const opened: Locks[] = [];
const urls = {} as Record<StoreName, string>;

beforeAll(async () => {
  // One PostgreSQL server has both kinds of locks.
  const kinds = STORES.filter((kind) => kind !== 'advisory');
  backends.push(...(await Promise.all(kinds.map((kind) => startBackend(kind)))));
  for (const { kind, url } of backends) urls[kind as StoreName] = url;
  urls.advisory = urls.postgres.replace('lease', 'advisory');
  urls.zookeeper = `${urls.zookeeper}?sessionMs=4000`;
});
afterAll(async () => {
  await Promise.all(opened.map((locks) => locks.close({ drainMs: 0 })));
  await Promise.all(backends.map((backend) => backend.stop()));
});

async function open(store: StoreName): Promise<Locks> {
  const locks = await openLocks(urls[store], { waitMs: 50_000 });
  opened.push(locks);
  return locks;
}

describe.concurrent.each(STORES)('%s: a section that blocks the event loop', (store) => {
  it('keeps its lock with renewals in a thread, until maxHoldMs, and loses it without', async () => {
    const locks = await open(store);
    const untouched = ['thread:untouched evicted', 'inline:untouched'];
    const names = ['thread:kept', 'thread:evicted', 'thread:capped', 'inline:lost', ...untouched];
    const process = await startBlocked(urls[store], { ttlMs: TTL_MS, blockMs: BLOCK_MS[store] }, names);
    const beginMs = Date.now();
    const grantedAt = async (name: string): Promise<[number, bigint]> => {
      const hold = await locks.mutex(name).acquire();
      const atMs = Date.now();
      await hold.release();
      return [atMs, hold.fence];
    };
    const kept = later(grantedAt('kept'));
    const lost = later(grantedAt('lost'));
    const capped = later(grantedAt('capped'));
    await sleep(TTL_MS);
    for (const name of ['evicted', 'untouched evicted']) {
      const [holder] = (await locks.inspect(name)).holders;
      expect(await locks.evict(name, { id: holder?.id ?? '' })).toBe(true);
    }
    const { found, atMs } = await process.report;
    expect(atMs - beginMs).toBeGreaterThan(BLOCK_MS[store] / 2);
    expect(found.kept).toMatchObject({ lost: null, isAborted: false, isAbortedLater: false });
    expect(found.kept?.remainingMs).toBeGreaterThan(0);
    expect(found.kept?.stalledMs).toBeGreaterThan(TTL_MS / 3);
    expect(found.evicted).toMatchObject({
      lost: 'taken',
      remainingMs: 0,
      isAborted: true,
      isAbortedLater: true,
    });
    // Nothing was asked of these holds before the next turn.
    expect(found['untouched evicted']).toMatchObject({ isAbortedLater: true });
    expect(found.untouched).toMatchObject({ isAbortedLater: true });
    const how = store === 'advisory' || store === 'zookeeper' ? 'session' : 'expired';
    expect(found.lost).toMatchObject({ lost: how, remainingMs: 0, isAborted: true, isAbortedLater: true });
    expect(found.capped).toMatchObject({ lost: 'expired', remainingMs: 0, isAborted: true });
    expect((await capped)[0], 'granted during the block').toBeLessThan(atMs);
    const [keptUntilMs, fence] = await kept;
    expect(keptUntilMs, 'granted after the block only').toBeGreaterThanOrEqual(atMs);
    expect(fence > BigInt(found.kept?.fence ?? 0)).toBe(true);
    await lost;
    expect(await process.exitCode).toBe(0);
  });

  it('loses its lock when the whole process is paused, and learns of it in the first statement', async () => {
    const locks = await open(store);
    // Long enough that it is paused before the block has ended.
    const times = { ttlMs: TTL_MS, blockMs: 2 * TTL_MS };
    const { pid, report, exitCode } = await startBlocked(urls[store], times, ['thread:stopped']);
    process.kill(pid, 'SIGSTOP');
    const next = later(locks.mutex('stopped').acquire());
    // The kernel of a paused process still answers PostgreSQL, which keeps the lock meanwhile.
    await (store === 'advisory' ? sleep(BLOCK_MS.advisory) : Promise.all([next, sleep(times.blockMs)]));
    process.kill(pid, 'SIGCONT');
    const { found } = await report;
    expect(found.stopped).toMatchObject({ remainingMs: 0, isAborted: true, isAbortedLater: true });
    expect(found.stopped?.lost).toMatch(/expired|session/);
    const hold = await next;
    hold.assertHeld();
    await hold.release();
    expect(await exitCode).toBe(0);
  });
});
