import { describe, expect, it } from 'vitest';
import { createLocks, type Locks } from '../../src/index.ts';
import { type Schedule, schedule, type Tick } from '../../src/schedule/index.ts';
import { WrappedStore } from '../../src/store/wrapped-store.ts';
import { faultyStore, type StoreCall } from '../../src/testing/index.ts';
import { connectionTo } from '../support/memory/memory-connection.ts';
import { outcomeOf } from '../support/memory/world.ts';
import { at, EVERY_MINUTE, MINUTE_MS, makeWorld } from './support/world.ts';

describe.each(['skip', 'once'] as const)('with %s', (missed) => {
  it('each slot is run by one of many processes', async () => {
    const { clock, runs, slots, locks, job } = makeWorld();
    const jobs = [0, 300, -2_000, 5_000, -5_000].map((shiftMs) => job(locks(shiftMs), { missed }, 100));
    await clock.advance(5 * MINUTE_MS);
    const expected = missed === 'once' ? [0, 1, 2, 3, 4, 5] : [1, 2, 3, 4, 5];
    expect(slots()).toEqual(expected.map(at));
    // The one whose clock is ahead of the others.
    expect(runs.slice(-4).map(({ process }) => process)).toEqual(['p4', 'p4', 'p4', 'p4']);
    await Promise.all(jobs.map((each) => each.stop()));
  });

  it('clocks may be 4 minutes apart', async () => {
    const { clock, slots, locks, job } = makeWorld();
    const jobs = [4 * MINUTE_MS, 0].map((shiftMs) => job(locks(shiftMs), { missed }));
    await clock.advance(10 * MINUTE_MS);
    const expected = Array.from({ length: 15 }, (_, n) => at(n));
    expect(slots().sort()).toEqual(missed === 'once' ? expected : expected.slice(1));
    await Promise.all(jobs.map((each) => each.stop()));
  });

  it('two runs never overlap, and one that is longer than the interval makes slots be missed', async () => {
    const { clock, slots, locks, job } = makeWorld();
    const jobs = [0, 10].map((shiftMs) => job(locks(shiftMs), { missed }, 2.25 * MINUTE_MS));
    await clock.advance(9 * MINUTE_MS);
    // `skip` misses what came meanwhile; `once` makes up for the latest of it.
    const expected = missed === 'skip' ? [1, 4, 7] : [0, 2, 5, 7, 9];
    expect(slots()).toEqual(expected.map(at));
    const stopping = jobs.map((each) => each.stop());
    await clock.advance(3 * MINUTE_MS);
    await Promise.all(stopping);
  });

  it('a clock that is set back does not run a slot again', async () => {
    const { clock, slots, locks, job } = makeWorld();
    const own = job(locks(), { missed });
    await clock.advance(2 * MINUTE_MS);
    clock.jumpWall(-90_000);
    await clock.advance(3 * MINUTE_MS);
    const all = slots();
    expect(new Set(all).size).toBe(all.length);
    expect(all.at(-1)).toBe(at(4));
    await own.stop();
  });

  it('stop aborts the signal, waits for the run and starts nothing more', async () => {
    const { clock, locks } = makeWorld();
    const said: string[] = [];
    const own = schedule(
      locks(),
      'job',
      EVERY_MINUTE,
      async ({ signal }) => {
        said.push('started');
        signal.addEventListener('abort', () => said.push(`aborted: ${signal.reason.code}`));
        await clock.sleep(5_000);
        said.push('ended');
      },
      { missed },
    );
    await clock.advance(31_000);
    const stopping = outcomeOf(own.stop());
    await clock.advance(1_000);
    expect(stopping.state).toBe('pending');
    await clock.advance(3_100);
    expect(stopping.state).toBe('kept');
    await clock.advance(5 * MINUTE_MS);
    expect(said.slice(-3)).toEqual(['started', 'aborted: CLOSED', 'ended']);
    // Nothing is left to keep a process alive.
    expect(clock.timers).toBe(0);
    expect(await own.last()).toEqual({ slot: new Date(at(1)), done: true });
    expect(own.next).toBeNull();
    await expect(own.runNow()).rejects.toMatchObject({ code: 'CLOSED' });
  });

  it('runNow rejects when the schedule is stopped before its claim is granted', async () => {
    const { clock, runs, locks, job } = makeWorld();
    const own = job(locks(), { missed });
    await clock.advance(2_000);
    runs.length = 0;
    const ran = outcomeOf(own.runNow());
    const stopping = own.stop();
    await clock.advance(1_000);
    await stopping;
    expect([ran.state, ran.error, runs]).toMatchObject(['broken', { code: 'CLOSED' }, []]);
  });

  it('last rejects when the store does not answer', async () => {
    const { clock, store, job } = makeWorld();
    class Silent extends WrappedStore {
      override async *list(): AsyncIterable<string> {
        await new Promise(() => {});
        yield '';
      }
    }
    const own = job(createLocks(new Silent(connectionTo(store)), { clock }), { missed });
    const last = outcomeOf(own.last());
    await clock.advance(6_000);
    expect([last.state, last.error]).toMatchObject(['broken', { code: 'STORE' }]);
    await own.stop();
  });

  it('runNow is an extra run, and never overlaps another', async () => {
    const { clock, runs, locks, job } = makeWorld();
    const [one, two] = [job(locks(), { missed }, 1_000), job(locks(), { missed }, 1_000)];
    await clock.advance(2_000);
    runs.length = 0;
    const [ran, refused] = [outcomeOf(one.runNow()), outcomeOf(two.runNow())];
    await clock.advance(500);
    expect([ran.state, refused.value]).toEqual(['pending', false]);
    await clock.advance(600);
    expect(ran.value).toBe(true);
    expect(runs).toMatchObject([{ process: 'p1', lateMs: 0 }]);
    await clock.advance(27_500);
    expect(runs).toHaveLength(2);
    // It is not a slot, so nothing is remembered of it.
    expect(await one.last()).toEqual({ slot: new Date(at(1)), done: false });
    await clock.advance(2_000);
    expect(await one.last()).toEqual({ slot: new Date(at(1)), done: true });
    await Promise.all([one.stop(), two.stop()]);
  });

  it('a function that throws has run: onError is called, and the schedule continues', async () => {
    const { clock, locks } = makeWorld();
    const failed: unknown[] = [];
    const make = (own: Locks): Schedule =>
      schedule(own, 'job', EVERY_MINUTE, () => Promise.reject(new Error('no')), {
        missed,
        onError: (error, tick) => failed.push([(error as Error).message, tick.slot.toISOString()]),
      });
    const jobs = [make(locks()), make(locks())];
    await clock.advance(2 * MINUTE_MS);
    const expected = missed === 'once' ? [0, 1, 2] : [1, 2];
    expect(failed).toEqual(expected.map((minute) => ['no', at(minute)]));
    await Promise.all(jobs.map((each) => each.stop()));
  });

  it('a run is shown under the name of the schedule, and a finished one as done', async () => {
    const { clock, locks, job } = makeWorld();
    const own = locks();
    const running = job(own, { missed, metadata: { team: 'a' } }, 10_000);
    await clock.advance(30_500);
    const all = async (): Promise<unknown[]> => {
      const found: unknown[] = [];
      for await (const view of own.list('jo')) found.push(view);
      return found;
    };
    const held = {
      name: 'job',
      use: 'schedule',
      done: false,
      holders: [{ metadata: { team: 'a', slot: at(1) } }],
    };
    expect(await all()).toMatchObject([held]);
    expect(await own.inspect('job', { use: 'schedule' })).toMatchObject(held);
    await clock.advance(2.25 * MINUTE_MS);
    const done = { name: 'job', use: 'schedule', done: true, holders: [], waiters: [] };
    expect(await all()).toMatchObject([done]);
    expect(await own.inspect('job', { use: 'schedule' })).toMatchObject(done);
    await running.stop();
  });

  it('a process that was paused for an hour starts nothing', async () => {
    const { clock, store, runs } = makeWorld();
    // Stopped while the last command before the start is on its way: with `skip` the claim that keeps
    // runs apart, with `once` the read after it.
    let isArmed = false;
    let claims = 0;
    const plan = ({ verb }: StoreCall): null => {
      if (verb === 'claim') claims += 1;
      const isLast = missed === 'skip' ? claims === 2 : verb === 'read' && claims === 1;
      if (isArmed && isLast) {
        isArmed = false;
        clock.jumpWall(3_600_000);
      }
      return null;
    };
    // So long that the hold itself is still good after the hour.
    const ttlMs = 86_400_000;
    const locks = createLocks(faultyStore(connectionTo(store), plan), { clock, ttlMs });
    const late: number[] = [];
    const own = schedule(locks, 'job', EVERY_MINUTE, ({ lateMs }) => void late.push(lateMs), {
      missed,
      ...(missed === 'once' ? { maxLateMs: 5 * MINUTE_MS } : {}),
    });
    await clock.advance(1_000);
    isArmed = true;
    claims = 0;
    await clock.advance(30_000);
    expect(isArmed).toBe(false);
    expect(late.filter((ms) => ms > MINUTE_MS)).toEqual([]);
    expect(runs).toEqual([]);
    await own.stop();
  });
});

describe('missed: once', () => {
  it('runs the latest slot that no process ran, when a process starts', async () => {
    const { clock, runs, locks, job } = makeWorld();
    const own = job(locks(), { missed: 'once' });
    await clock.advance(1);
    expect(runs).toEqual([{ process: 'p1', slot: at(0), lateMs: 30_000 }]);
    // And not again.
    const two = job(locks(), { missed: 'once' });
    await clock.advance(1);
    expect(runs).toHaveLength(1);
    await Promise.all([own.stop(), two.stop()]);
  });

  it('but not later than maxLateMs', async () => {
    const { clock, slots, locks, job } = makeWorld();
    const own = job(locks(), { missed: 'once', maxLateMs: 29_999 });
    await clock.advance(MINUTE_MS);
    expect(slots()).toEqual([at(1)]);
    await own.stop();
  });

  it('runs a slot again after its run died, within the TTL', async () => {
    const { clock, store, runs, locks, job } = makeWorld();
    let isDead = false;
    const dying = createLocks(
      faultyStore(connectionTo(store), () => (isDead ? 'fail' : null)),
      { clock, ttlMs: 10_000 },
    );
    const dead = schedule(dying, 'job', EVERY_MINUTE, () => new Promise(() => {}), { missed: 'once' });
    await clock.advance(1_000);
    const own = job(locks(), { missed: 'once' });
    await clock.advance(1_000);
    isDead = true;
    expect(runs).toEqual([]);
    await clock.advance(10_100);
    expect(runs).toMatchObject([{ process: 'p1', slot: at(0) }]);
    const stopping = [own.stop(), dead.stop({ drainMs: 0 })];
    await clock.advance(1);
    await Promise.all(stopping);
  });

  it('runs a slot again after its run was interrupted by stop', async () => {
    const { clock, runs, locks, job } = makeWorld();
    const interrupted = schedule(
      locks(),
      'job',
      EVERY_MINUTE,
      ({ signal }) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      { missed: 'once' },
    );
    await clock.advance(1_000);
    const own = job(locks(), { missed: 'once' });
    await clock.advance(1_000);
    await interrupted.stop();
    await clock.advance(1);
    expect(runs).toMatchObject([{ process: 'p1', slot: at(0) }]);
    await own.stop();
  });

  it('says what was lost: a run whose hold is gone is not done', async () => {
    const { clock, locks } = makeWorld();
    const own = locks(0, { ttlMs: 10_000 });
    const errors: unknown[] = [];
    const slots: string[] = [];
    const job = schedule(
      own,
      'job',
      EVERY_MINUTE,
      async ({ hold, slot }: Tick) => {
        slots.push(slot.toISOString());
        if (slots.length === 1) await own.evict('job', hold, { use: 'schedule' });
        await clock.sleep(5_000);
      },
      { missed: 'once', onError: (error) => errors.push((error as { code: string }).code) },
    );
    await clock.advance(20_000);
    expect([errors, slots]).toEqual([['HOLD_LOST'], [at(0), at(0)]]);
    await job.stop();
  });
});

describe('a store that fails', () => {
  it.each(['skip', 'once'] as const)('is asked until the next slot: %s', async (missed) => {
    const { clock, store, runs } = makeWorld();
    let isAway = false;
    const make = (): Locks =>
      createLocks(
        faultyStore(connectionTo(store), () => (isAway ? 'lose' : null)),
        { clock },
      );
    const jobs = [make(), make()].map((locks, n) =>
      schedule(
        locks,
        'job',
        EVERY_MINUTE,
        ({ slot, lateMs }) => {
          runs.push({ process: `p${n}`, slot: slot.toISOString(), lateMs });
        },
        { missed },
      ),
    );
    await clock.advance(20_000);
    runs.length = 0;
    isAway = true;
    // The minutes 1 and 2 pass meanwhile.
    await clock.advance(110_000);
    isAway = false;
    await clock.advance(10_000);
    expect(runs).toHaveLength(1);
    expect(runs).toMatchObject([{ slot: at(2) }]);
    expect(runs[0]?.lateMs).toBeGreaterThanOrEqual(40_000);
    await clock.advance(40_000);
    expect(runs.map(({ slot }) => slot)).toEqual([at(2), at(3)]);
    await Promise.all(jobs.map((each) => each.stop()));
  });
});
