import { expect, it, vi } from 'vitest';
import { createLocks, type Store } from '../../src/index.ts';
import { type Schedule, schedule, type Tick } from '../../src/schedule/index.ts';
import { faultyStore } from '../../src/testing/index.ts';
import { connectionTo } from '../support/memory/memory-connection.ts';
import { outcomeOf } from '../support/memory/world.ts';
import { at, EVERY_MINUTE, MINUTE_MS, makeWorld } from './support/world.ts';

const HOUR_MS = 60 * MINUTE_MS;
const codeOf = (error: unknown): string => (error as { code: string }).code;

it('with once, a completed run that was not recorded is reported, and its slot is run again', async () => {
  const { clock, store, runs } = makeWorld();
  let isAway = false;
  const locks = createLocks(
    faultyStore(connectionTo(store), () => (isAway ? 'fail' : null)),
    { clock, ttlMs: 5_000 },
  );
  const errors: [string, string][] = [];
  const job = schedule(
    locks,
    'job',
    EVERY_MINUTE,
    ({ slot, lateMs }) => {
      runs.push({ process: 'p', slot: slot.toISOString(), lateMs });
      isAway = runs.length === 1;
    },
    { missed: 'once', onError: (error, tick) => errors.push([codeOf(error), tick.slot.toISOString()]) },
  );
  await clock.advance(10_000);
  expect([runs.length, errors]).toEqual([1, [['HOLD_LOST', at(0)]]]);
  isAway = false;
  await clock.advance(10_000);
  expect(runs.map(({ slot }) => slot)).toEqual([at(0), at(0)]);
  expect(errors).toHaveLength(1);
  await job.stop();
});

it('with once, a run that always loses its hold is repeated less and less often', async () => {
  const { clock, locks } = makeWorld();
  const own = locks();
  const startsMs: number[] = [];
  const onError = vi.fn();
  const lose = async ({ hold }: Tick): Promise<void> => {
    startsMs.push(clock.monotonicMs());
    await own.evict('job', hold, { use: 'schedule' });
    await clock.sleep(10);
    hold.signal.throwIfAborted();
  };
  const minute = {
    next: (after: Date): Date | null => new Date(Math.floor(after.getTime() / 60_000 + 1) * 60_000),
  };
  const job: Schedule = schedule(own, 'job', minute, lose, { missed: 'once', onError });
  await clock.advance(29_000);
  expect(startsMs.length).toBeGreaterThan(2);
  expect(startsMs.length).toBeLessThan(25);
  // The slot of minute 1 does not wait for the end of the pause.
  const before = startsMs.length;
  await clock.advance(1_500);
  expect(startsMs.length).toBeGreaterThan(before);
  expect(onError.mock.calls.length).toBe(startsMs.length);
  await job.stop();
});

it('with once, stop does not wait for the pause after a run that has lost its hold', async () => {
  const { clock, locks } = makeWorld();
  const own = locks();
  let starts = 0;
  let stopping: ReturnType<typeof outcomeOf> | null = null;
  const lose = async ({ hold }: Tick): Promise<void> => {
    starts += 1;
    if (starts === 6) stopping = outcomeOf(job.stop());
    await own.evict('job', hold, { use: 'schedule' });
    await clock.sleep(10);
    hold.signal.throwIfAborted();
  };
  const day = { next: (after: Date): Date => new Date(after.getTime() + 86_400_000) };
  const job = schedule(own, 'job', day, lose, { missed: 'once', onError: () => {} });
  while (starts < 6) await clock.advance(1_000);
  await clock.advance(100);
  expect(stopping).toMatchObject({ state: 'kept' });
});

it('with once, a process keeps the claim for a slot that comes due while it asks the store', async () => {
  const { clock, store } = makeWorld();
  const own = connectionTo(store);
  let claims = 0;
  let isHeld = false;
  const slow: Store = {
    ...own,
    async claim(request, signal, waiter) {
      if (request.wait) claims += 1;
      const outcome = await own.claim(request, signal, waiter);
      isHeld ||= request.wait && outcome.granted;
      return outcome;
    },
    async read(name, signal) {
      // Longer than the time between two slots, once.
      if (isHeld && claims === 1) {
        isHeld = false;
        await clock.sleep(1_200);
      }
      return await own.read(name, signal);
    },
  };
  const second = { next: (after: Date): Date => new Date((Math.floor(after.getTime() / 1_000) + 1) * 1_000) };
  const started: [slotMs: number, claims: number][] = [];
  const fn = ({ slot }: Tick): void => void started.push([slot.getTime(), claims]);
  const startMs = clock.wallMs();
  const job = schedule(createLocks(slow, { clock }), 'job', second, fn, { missed: 'once' });
  await clock.advance(2_500);
  await job.stop();
  const [first] = started;
  expect(first?.[1]).toBe(1);
  expect((first?.[0] ?? 0) - startMs).toBeGreaterThan(0);
});

it('a run whose hold is lost just before it starts gets a signal that has aborted', async () => {
  const { clock, locks } = makeWorld();
  const own = locks();
  const seen: unknown[] = [];
  const fn = ({ signal }: Tick): void => void seen.push(signal.aborted && codeOf(signal.reason));
  const job = schedule(own, 'job', EVERY_MINUTE, fn, { onError: () => {} });
  // The host was suspended between the grant and the run.
  own.on('acquired', () => clock.jumpWall(60 * MINUTE_MS));
  expect(await job.runNow()).toBe(true);
  expect(seen).toEqual(['HOLD_LOST']);
  await job.stop();
});

it('with once, a failure of the store between two lost runs does not shorten the pause', async () => {
  const { clock, store } = makeWorld();
  // Every pause has its full length.
  vi.spyOn(clock, 'random').mockReturnValue(1);
  let isAway = false;
  const own = createLocks(
    faultyStore(connectionTo(store), () => (isAway ? 'fail' : null)),
    { clock },
  );
  const startsMs: number[] = [];
  const lose = async ({ hold }: Tick): Promise<void> => {
    startsMs.push(clock.monotonicMs());
    await own.evict('job', hold, { use: 'schedule' });
    await clock.sleep(10);
    hold.signal.throwIfAborted();
  };
  const hourly = {
    next: (after: Date): Date => new Date((Math.floor(after.getTime() / HOUR_MS) + 1) * HOUR_MS),
  };
  const job = schedule(own, 'job', hourly, lose, { missed: 'once', onError: () => {} });
  // The pauses last 1, 2, 4, 8 and 16 s.
  await clock.advance(32_000);
  expect(startsMs.length).toBe(6);
  isAway = true;
  await clock.advance(40_000);
  isAway = false;
  await clock.advance(10_000);
  expect(startsMs.length).toBe(7);
  await clock.advance(40_000);
  expect(startsMs.length).toBe(7);
  await job.stop();
});
