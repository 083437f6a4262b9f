import { describe, expect, it } from 'vitest';
import type { LockDetail, LockList, ScheduleList } from '../../src/dashboard/index.ts';
import { Timelines } from '../../src/dashboard/timeline.ts';
import { schedule } from '../../src/schedule/index.ts';
import type { StoredClaim } from '../../src/store/store.ts';
import { faultyStore } from '../../src/testing/index.ts';
import { viewLock } from '../../src/view.ts';
import { later } from '../support/waiting/eventually.ts';
import { virtualWorld, watch } from './support/virtual-world.ts';

describe('the timeline of a lock', () => {
  it('shows who held and who waited, from sample to sample', async () => {
    const each = virtualWorld();
    const { clock, locks, get } = each;
    const startMs = clock.wallMs();
    const events = await watch(each);
    const first = await locks.mutex('hot').acquire();
    const waiting = later(locks.mutex('hot').acquire());
    await clock.advance(2_500);
    await first.release();
    const second = await waiting;
    await clock.advance(2_500);
    const { timeline } = await get<LockDetail>('/api/lock?name=hot');
    const relative = timeline.spans.map(({ id, state, fromMs, toMs, isOpen }) => [
      id === first.id ? 'first' : 'second',
      ...[state, Math.round((fromMs - startMs) / 1_000), Math.round((toMs - startMs) / 1_000), isOpen],
    ]);
    expect(relative).toEqual([
      // Each lasts up to the sample that no longer shows it: a handoff leaves no gap between holders.
      ['first', 'held', 0, 3, false],
      ['second', 'waiting', 0, 3, false],
      ['second', 'held', 3, 5, true],
    ]);
    expect(timeline.queue.map(({ holders, waiters }) => [holders, waiters])).toEqual([
      [1, 1],
      [1, 0],
    ]);
    expect(timeline.gaps).toEqual([]);
    await events.close();
    await second.release();
    await locks.close();
  });

  it('has no gap where scans found the lock free', async () => {
    const each = virtualWorld();
    const { clock, locks, get } = each;
    const events = await watch(each);
    await (await locks.mutex('idle').acquire()).release();
    const first = await locks.mutex('idle').acquire();
    await clock.advance(1_500);
    await first.release();
    await clock.advance(20_000);
    const second = await locks.mutex('idle').acquire();
    await clock.advance(1_500);
    const { timeline } = await get<LockDetail>('/api/lock?name=idle');
    expect(timeline.gaps).toEqual([]);
    expect(timeline.spans.map(({ id, isOpen }) => [id, isOpen])).toEqual([
      [first.id, false],
      [second.id, true],
    ]);
    expect(timeline.queue.map(({ holders }) => holders)).toEqual([1, 0, 1]);
    await events.close();
    await second.release();
    await locks.close();
  });

  it('is not forgotten when names that nobody uses are asked for', () => {
    const timelines = new Timelines();
    const sample = (name: string, claims: readonly StoredClaim[], readAtMs: number): void =>
      timelines.sample({ view: viewLock(name, claims), readAtMs, slot: null }, 1_000);
    const held: StoredClaim = {
      ...{ id: 'x', granted: true, mode: { kind: 'exclusive' }, fence: 1n, note: null },
      ...{ heldForMs: 0, expiresInMs: 30_000 },
    };
    sample('real', [held], 1_000);
    for (let n = 0; n < 100_000; n += 1) sample(`random-${n}`, [], 2_000);
    sample('real', [held], 3_000);
    expect(timelines.of('real', 1_000)).toMatchObject({ fromMs: 1_000, toMs: 3_000 });
    // A free lock that somebody looks at is sampled too.
    sample('random-99999', [held], 3_000);
    expect(timelines.of('random-99999', 1_000)).toMatchObject({ fromMs: 2_000, toMs: 3_000 });
  });

  it('has a gap where nobody watched', async () => {
    const each = virtualWorld();
    const { clock, locks, get } = each;
    const hold = await locks.mutex('idle').acquire();
    await get('/api/lock?name=idle');
    await clock.advance(20_000);
    const { timeline } = await get<LockDetail>('/api/lock?name=idle');
    expect(timeline.gaps).toEqual([{ fromMs: timeline.fromMs, toMs: timeline.toMs }]);
    expect(timeline.spans).toMatchObject([
      { id: hold.id, isOpen: false },
      { id: hold.id, isOpen: true },
    ]);
    await hold.release();
    await locks.close();
  });
});

describe('a state', () => {
  it('is long-held after 5 minutes, and expiring once half of the lease is gone', async () => {
    let isDown = false;
    const { clock, locks, get } = virtualWorld((store) =>
      faultyStore(store, ({ verb }) => (isDown && verb === 'renew' ? 'fail' : null)),
    );
    const names = async (state: string): Promise<string[]> =>
      (await get<LockList>(`/api/locks?state=${state}`)).locks.map(({ name }) => name);
    await locks.mutex('held').acquire();
    await clock.advance(290_000);
    expect([await names('long-held'), await names('expiring')]).toEqual([[], []]);
    await clock.advance(20_000);
    expect([await names('long-held'), await names('expiring')]).toEqual([['held'], []]);
    isDown = true;
    await clock.advance(20_000);
    expect(await names('expiring')).toEqual(['held']);
    await locks.close({ drainMs: 0 });
  });
});

describe('a semaphore with more holders than a list shows', () => {
  it('shows the holder whose lease ends first, and is found by it', async () => {
    const { clock, locks, get } = virtualWorld();
    const pool = locks.semaphore('pool', { permits: 10 });
    for (let n = 0; n < 6; n += 1) await pool.acquire();
    const dying = await pool.acquire({ renew: false });
    const expiring = async (): Promise<string[]> =>
      (await get<LockList>('/api/locks?state=expiring')).locks.flatMap(({ holders }) =>
        holders.map(({ id }) => id),
      );
    expect(await expiring()).toEqual([]);
    await clock.advance(20_000);
    const shown = await expiring();
    expect(shown).toHaveLength(3);
    expect(shown.at(-1)).toBe(dying.id);
    await locks.close({ drainMs: 0 });
  });

  it('shows how much of each lease is left, also beyond the first three', async () => {
    const { clock, locks, get } = virtualWorld();
    const pool = locks.semaphore('pool', { permits: 10 });
    for (let n = 0; n < 6; n += 1) await pool.acquire({ renew: false });
    const leases = async (): Promise<(number | null)[]> =>
      (await get<LockDetail>('/api/lock?name=pool')).holders.map(({ leaseMs }) => leaseMs);
    const whole = await leases();
    expect(whole).toHaveLength(6);
    await clock.advance(10_000);
    expect(await leases()).toEqual(whole);
    await locks.close({ drainMs: 0 });
  });
});

describe('a schedule', () => {
  it('is shown with the run in progress, the last slot and the next', async () => {
    const { clock, locks, get } = virtualWorld();
    let finish = (): void => {};
    const job = schedule(locks, 'tick', '* * * * *', () => new Promise<void>((end) => (finish = end)), {
      timeZone: 'UTC',
    });
    const startMs = clock.wallMs();
    await clock.advance(61_000);
    const [running] = (await get<ScheduleList>('/api/schedules')).schedules;
    expect(running).toMatchObject({
      ...{ name: 'tick', runningSlotMs: startMs + 60_000, lastSlotMs: startMs + 60_000, isLastDone: false },
      ...{ running: { owner: 'me' }, isKnownHere: true, nextSlotMs: startMs + 120_000 },
    });
    finish();
    await clock.advance(2_000);
    const [idle] = (await get<ScheduleList>('/api/schedules')).schedules;
    expect(idle).toMatchObject({ running: null, lastSlotMs: startMs + 60_000, isLastDone: true });
    const detail = await get<LockDetail>('/api/lock?name=tick&use=schedule');
    expect(detail.lock).toMatchObject({ name: 'tick', use: 'schedule', done: true });
    await job.stop();
    await locks.close();
  });
});

describe('a client', () => {
  it('that sends its body too slowly is refused after 10 seconds', async () => {
    const { clock, locks, dashboard } = virtualWorld();
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode('{"name":')),
    });
    const headers = { 'content-type': 'application/json' };
    const init = { method: 'POST', headers, body, duplex: 'half' } as const;
    const answer = dashboard.fetch(new Request('http://localhost/api/evict', init));
    await clock.advance(10_500);
    expect((await answer).status).toBe(408);
    await locks.close();
  });

  it('cannot name what is no lock', async () => {
    const { locks, dashboard } = virtualWorld();
    for (const name of ['', 'once\u001fimport', 'x'.repeat(513)]) {
      const query = new URLSearchParams({ name });
      expect((await dashboard.fetch(new Request(`http://localhost/api/lock?${query}`))).status).toBe(400);
    }
    await locks.close();
  });
});
