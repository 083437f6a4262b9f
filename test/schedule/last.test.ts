import { describe, expect, it } from 'vitest';
import { schedule } from '../../src/schedule/index.ts';
import { outcomeOf } from '../support/memory/world.ts';
import { at, EVERY_MINUTE, MINUTE_MS, makeWorld } from './support/world.ts';

const slot = (minute: number): Date => new Date(at(minute));

describe('last', () => {
  it('names the slot that runs, also when the process had queued for an earlier one', async () => {
    const { clock, runs, locks, job } = makeWorld();
    const own = locks();
    const jobs = [job(own, { missed: 'once' }, 50_000), job(locks(10), { missed: 'once' }, 50_000)];
    // The run of minute 0 ends at 1:20, and the process that had queued for minute 0 runs minute 1.
    await clock.advance(55_000);
    expect(runs.map((run) => run.slot)).toEqual([at(0), at(1)]);
    expect(await jobs[0]?.last()).toEqual({ slot: slot(1), done: false });
    expect(await own.inspect('job', { use: 'schedule' })).toMatchObject({
      holders: [{ metadata: { slot: at(1) } }],
    });
    const stopping = jobs.map((each) => each.stop());
    await clock.advance(MINUTE_MS);
    await Promise.all(stopping);
  });

  it('with skip, is the run in progress while slots are missed for it', async () => {
    const { clock, locks, job } = makeWorld();
    const own = job(locks(), {}, 2.5 * MINUTE_MS);
    const other = job(locks());
    await clock.advance(2 * MINUTE_MS);
    expect(await own.last()).toEqual({ slot: slot(1), done: false });
    const stopping = [own.stop(), other.stop()];
    await clock.advance(2 * MINUTE_MS);
    await Promise.all(stopping);
  });

  it('does not take metadata of the user for a slot', async () => {
    const { clock, locks } = makeWorld();
    const seen: unknown[] = [];
    const own = locks();
    const job = schedule(
      own,
      'job',
      EVERY_MINUTE,
      async ({ hold }) => {
        seen.push(hold.metadata);
        await clock.sleep(1_000);
      },
      { metadata: { slot: '2030-01-01T00:00:00Z', team: 'a' } },
    );
    const ran = outcomeOf(job.runNow());
    await clock.advance(500);
    expect(await job.last()).toBeNull();
    expect((await own.inspect('job', { use: 'schedule' })).holders).toMatchObject([
      { metadata: { team: 'a' } },
    ]);
    await clock.advance(1_000);
    expect([ran.value, seen]).toEqual([true, [{ slot: '2030-01-01T00:00:00Z', team: 'a' }]]);
    await job.stop();
  });
});
