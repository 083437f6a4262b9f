import { describe, expect, it } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { schedule } from '../../src/schedule/index.ts';
import { faultyStore } from '../../src/testing/index.ts';
import { connectionTo } from '../support/memory/memory-connection.ts';
import { at, MINUTE_MS, makeWorld } from './support/world.ts';

describe.each(['skip', 'once'] as const)('with %s', (missed) => {
  it('a slot that the clock ahead has run is not run again by the latest allowed process', async () => {
    const { clock, store, runs, locks } = makeWorld();
    const slotMs = Date.parse(at(10));
    const when = { next: (after: Date) => (after.getTime() < slotMs ? new Date(slotMs) : null) };
    const options = missed === 'once' ? { missed, maxLateMs: 5 * MINUTE_MS } : { missed };
    let isAway = true;
    const behind = createLocks(
      faultyStore(connectionTo(store), () => (isAway ? 'fail' : null)),
      { clock },
    );
    const jobs = [locks(4.9 * MINUTE_MS), behind].map((own, n) =>
      schedule(
        own,
        'job',
        when,
        ({ slot, lateMs }) => void runs.push({ process: `p${n}`, slot: slot.toISOString(), lateMs }),
        options,
      ),
    );
    await clock.advance(5 * MINUTE_MS);
    expect(runs).toMatchObject([{ process: 'p0' }]);
    // It reaches the store 4 min 50 s after its slot: almost 10 minutes after the run.
    await clock.advance(9 * MINUTE_MS + 20_000);
    isAway = false;
    await clock.advance(5 * MINUTE_MS);
    expect(runs).toHaveLength(1);
    await Promise.all(jobs.map((job) => job.stop()));
  });

  it('a clock that was far ahead and is set back is followed', async () => {
    const { clock, slots, locks, job } = makeWorld();
    clock.jumpWall(24 * 60 * MINUTE_MS);
    const own = job(locks(), { missed });
    await clock.advance(90_000);
    expect(slots().length).toBeGreaterThan(0);
    const before = slots().length;
    clock.jumpWall(-24 * 60 * MINUTE_MS);
    expect(own.next).toEqual(new Date(at(3)));
    await clock.advance(2 * MINUTE_MS);
    expect(slots().slice(before)).toEqual([at(3), at(4)].slice(0, slots().length - before));
    expect(slots().length).toBeGreaterThan(before);
    await own.stop();
  });
});
