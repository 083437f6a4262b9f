import { type Clock, createLocks, type Locks, type LocksOptions, memoryStore } from '../../../src/index.ts';
import { type Schedule, type ScheduleOptions, schedule } from '../../../src/schedule/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { connectionTo } from '../../support/memory/memory-connection.ts';

export const MINUTE_MS = 60_000;
export const EVERY_MINUTE = '* * * * *';
const start = '2026-01-01T00:00:30.000Z';
export const at = (minute: number): string => `2026-01-01T00:${String(minute).padStart(2, '0')}:00.000Z`;

interface Run {
  readonly process: string;
  readonly slot: string;
  readonly lateMs: number;
}

/** Several processes with clocks of their own over one memory store, in virtual time. */
export function makeWorld() {
  const clock = virtualClock({ wallMs: Date.parse(start) });
  const store = memoryStore({ clock });
  const runs: Run[] = [];
  const shifted = (ms: number): Clock => ({
    monotonicMs: () => clock.monotonicMs(),
    wallMs: () => clock.wallMs() + ms,
    random: () => clock.random(),
    startTimer: (afterMs, fire) => clock.startTimer(afterMs, fire),
  });
  let count = 0;
  return {
    clock,
    store,
    runs,
    slots: () => runs.map(({ slot }) => slot),
    locks: (shiftMs = 0, options: LocksOptions = {}): Locks =>
      createLocks(connectionTo(store), { clock: shifted(shiftMs), ...options }),
    /** A process that notes its runs and stays in each for `runMs`. */
    job(locks: Locks, options: ScheduleOptions = {}, runMs = 0): Schedule {
      count += 1;
      const process = `p${count}`;
      return schedule(
        locks,
        'job',
        EVERY_MINUTE,
        async ({ slot, lateMs }) => {
          runs.push({ process, slot: slot.toISOString(), lateMs });
          if (runMs > 0) await clock.sleep(runMs);
        },
        options,
      );
    },
  };
}
