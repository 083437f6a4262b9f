import { afterAll, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import { type Clock, createLocks, type Store } from '../../src/index.ts';
import type { Host } from '../../src/stores/sqlite/host-clock.ts';
import { hostOf } from '../../src/stores/sqlite/host-clock.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { SqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { request } from '../../src/testing/store-case.ts';
import { temporaryFolder } from './support/folder.ts';
import { openWith } from './support/libraries.ts';
import { startWorker } from './support/workers.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const wanted = request('x', { ttlMs: 10_000 });

/** A host whose clocks a test sets. */
class FakeHost implements Host {
  bootId = 'first boot';
  ms = 1_000_000;
  wall = 1_700_000_000_000;

  monotonicMs(): number {
    return this.ms;
  }

  wallMs(): number {
    return this.wall;
  }
}

async function fenceOf(store: Store, id: string, fenceAbove = 0n): Promise<bigint> {
  const outcome = await store.claim({ ...wanted, id, fenceAbove });
  if (!outcome.granted) throw new Error('refused');
  return outcome.fence;
}

describe('clocks that jump', () => {
  it('the wall clock may jump by hours: leases count by the monotonic clock of the host', async () => {
    const host = new FakeHost();
    const store = new SqliteStore(folder.file('wall.db'), {}, { host });
    await store.claim({ ...wanted, id: 'a' });
    for (const hours of [5, -9]) {
      host.wall += hours * 3_600_000;
      expect((await store.claim({ ...wanted, id: 'b' })).granted).toBe(false);
      expect((await store.renew({ name: 'x', id: 'a' }, { ttlMs: 10_000 })).held).toBe(true);
    }
    host.ms += 10_001;
    expect((await store.claim({ ...wanted, id: 'b' })).granted).toBe(true);
    await store.close();
  });

  it('fences rise across a wall clock set back, a restart and the pruning of unused locks', async () => {
    const host = new FakeHost();
    const path = folder.file('fences.db');
    let store = new SqliteStore(path, {}, { host });
    let last = 0n;
    for (let round = 0; round < 5; round += 1) {
      const fence = await fenceOf(store, `r${round}`);
      expect(fence > last).toBe(true);
      last = fence;
      if (round % 2 === 0) await store.release({ name: 'x', id: `r${round}` });
      else host.ms += 20_000;
      host.wall -= 3_600_000;
      await store.close();
      store = new SqliteStore(path, {}, { host });
    }
    await store.close();
  });

  it('a fence is above what the caller has seen, and then for every caller', async () => {
    const store = sqliteStore(folder.file('above.db'));
    const high = 2n ** 62n;
    expect(await fenceOf(store, 'a', high)).toBe(high + 1n);
    await store.release({ name: 'x', id: 'a' });
    expect((await fenceOf(store, 'b')) > high).toBe(true);
    await expect(fenceOf(store, 'c', 2n ** 63n - 1n)).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    await store.close();
  });

  it('where no greater fence can be counted, a claim is refused and nothing else fails with it', async () => {
    const store = sqliteStore(folder.file('last-fence.db'));
    const ref = { name: 'y', id: 'a' };
    await store.claim({ ...wanted, ...ref });
    expect(await fenceOf(store, 'b', 2n ** 63n - 2n)).toBe(2n ** 63n - 1n);
    const [free, again, renewed] = await Promise.allSettled([
      store.claim({ ...wanted, name: 'z', id: 'c' }),
      store.claim({ ...wanted, id: 'b' }),
      store.renew(ref, { ttlMs: 10_000 }),
    ]);
    expect(free).toMatchObject({ reason: { code: 'STORE', applied: 'no' } });
    expect(again).toMatchObject({ value: { granted: true, fence: 2n ** 63n - 1n } });
    expect(renewed).toMatchObject({ value: { held: true } });
    await store.close();
  });

  it('a hold that runs out while its owner asks for it again is either renewed or not granted', async () => {
    // Every look at the clock is a millisecond later than the one before.
    const host = new FakeHost();
    const store = new SqliteStore(':memory:', {}, { host });
    vi.spyOn(host, 'monotonicMs').mockImplementation(() => (host.ms += 1));
    for (let lateMs = -6; lateMs <= 0; lateMs += 1) {
      const name = `late by ${lateMs} ms`;
      const begunMs = host.ms + 1;
      await store.claim({ ...wanted, name, id: 'a', ttlMs: 100 });
      host.ms = begunMs + 100 + lateMs;
      expect(await store.claim({ ...wanted, name, id: 'a', ttlMs: 100 })).toMatchObject({ granted: true });
      expect(await store.claim({ ...wanted, name, id: 'b' })).toMatchObject({ granted: false });
    }
    await store.close();
  });

  it('after a reboot, old leases are judged by the wall clock: neither lost at once nor kept', async () => {
    const host = new FakeHost();
    const path = folder.file('boot.db');
    const before = new SqliteStore(path, {}, { host });
    await before.claim({ ...wanted, id: 'a', ttlMs: 60_000 });
    await before.close();
    host.bootId = 'second boot';
    host.ms = 5_000;
    host.wall += 30_000;
    const after = new SqliteStore(path, {}, { host });
    expect((await after.claim({ ...wanted, id: 'b' })).granted).toBe(false);
    expect(await after.read('x')).toMatchObject([{ id: 'a', expiresInMs: 30_000, heldForMs: null }]);
    host.wall += 30_001;
    expect((await after.claim({ ...wanted, id: 'b' })).granted).toBe(true);
    await after.close();
  });

  it('reads the same host clock in every process, also in a time namespace', async () => {
    const here = hostOf(systemClock);
    const before = here.monotonicMs();
    // A process whose monotonic clock is a week ahead must not take our lease for expired.
    const path = folder.file('namespace.db');
    const store = sqliteStore(path);
    await store.claim({ ...wanted, id: 'a' });
    const under = ['unshare', '--user', '--map-root-user', '--time', '--monotonic', '604800', '--fork'];
    const worker = await startWorker(path, ['try', 'x'], { under });
    expect(await worker.said('granted')).toEqual({ granted: null });
    expect(here.monotonicMs()).toBeGreaterThan(before);
    await store.close();
  });
});

describe('what finished locks leave behind', () => {
  it('is pruned, and the fence counter is kept', async () => {
    const path = folder.file('prune.db');
    const store = sqliteStore(path);
    for (let n = 0; n < 300; n += 1) await store.claim({ ...wanted, name: `once ${n}`, id: 'a', ttlMs: 1 });
    await new Promise((resolve) => setTimeout(resolve, 10));
    const last = await fenceOf(store, 'last');
    await store.close();
    const database = openWith('libsql', path);
    expect(
      database.prepare("SELECT count(*) AS rows FROM holdfast_hold WHERE name <> ''").all(),
    ).toMatchObject([{ rows: 1 }]);
    const [counter] = database
      .prepare("SELECT CAST(fence AS TEXT) AS fence FROM holdfast_hold WHERE name = ''")
      .all();
    expect(counter).toMatchObject({ fence: last.toString() });
    database.close();
  });

  it('is written back from the log long before that grows large', async () => {
    const path = folder.file('log.db');
    const store = sqliteStore(path);
    const { statSync } = await import('node:fs');
    for (let n = 0; n < 6_000; n += 1) {
      await store.claim({ ...wanted, id: `${n}` });
      await store.release({ name: 'x', id: `${n}` });
    }
    expect(statSync(`${path}-wal`).size).toBeLessThan(8_000_000);
    await store.close();
  });
});

describe('once, on a store that remembers', () => {
  const clock = virtualClock();
  const open = (path: string, own: Clock = clock) =>
    createLocks(sqliteStore(path, { clock: own }), { clock: own });

  it('runs once, is remembered by processes that open the file later, and is forgotten in time', async () => {
    const path = folder.file('once.db');
    const first = open(path);
    expect(await first.once('report', () => 42, { rememberMs: 60_000 })).toEqual({ ran: true, value: 42 });
    expect(await first.once('report', () => 43)).toEqual({ ran: false, why: 'done' });
    await first.close();
    const second = open(path);
    expect(await second.once('report', () => 44)).toEqual({ ran: false, why: 'done' });
    await clock.advance(60_001);
    expect(await second.once('report', () => 45, { rememberMs: 1_000 })).toEqual({ ran: true, value: 45 });
    await second.close();
  });

  it('reports a run elsewhere, runs again after a failure, and does not conflict with a mutex', async () => {
    const path = folder.file('once-more.db');
    const locks = open(path);
    const other = open(path);
    const running = locks.once('job', async () => {
      expect(await other.once('job', () => 1)).toEqual({ ran: false, why: 'running' });
      expect(await other.mutex('job').tryAcquire()).not.toBeNull();
      throw new Error('failed');
    });
    await expect(running).rejects.toThrow('failed');
    expect(await other.once('job', () => 2)).toEqual({ ran: true, value: 2 });
    await other.releaseAll();
    await locks.close();
    await other.close();
  });
});
