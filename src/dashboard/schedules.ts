import type { Core } from '../core.ts';
import { storedName } from '../use.ts';
import type { LockSummary, ScheduleList, ScheduleSummary } from './api.ts';
import type { Scan } from './scan-loop.ts';

const SCHEDULES_MAX = 1_000;

/** The schedules that the store remembers, and those of this process. */
export function listSchedules(core: Core, scan: Scan): ScheduleList {
  const here = schedulesHere(core);
  const stored = [...scan.locks.values()].filter(({ use }) => use === 'schedule').map(({ name }) => name);
  const names = [...new Set([...here.keys(), ...stored])].sort();
  const schedules = names.slice(0, SCHEDULES_MAX).map((name): ScheduleSummary => {
    const lock = scan.locks.get(storedName('schedule', name));
    const slot = scan.slots.get(name);
    const running = lock?.holders[0] ?? null;
    return {
      name,
      running,
      runningSlotMs: running === null ? null : slotOf(lock),
      lastSlotMs: slot?.slotMs ?? null,
      isLastDone: slot?.isDone ?? null,
      isKnownHere: here.has(name),
      nextSlotMs: here.get(name)?.getTime() ?? null,
    };
  });
  const isTruncated = scan.isTruncated || names.length > SCHEDULES_MAX;
  return { takenAtMs: scan.takenAtMs, isTruncated, schedules };
}

/** The schedules of this process, and their next slots. */
function schedulesHere(core: Core): Map<string, Date | null> {
  const here = new Map<string, Date | null>();
  for (const stoppable of core.stoppables) {
    try {
      const { serves } = stoppable;
      if (serves?.kind === 'schedule') here.set(serves.name, serves.next ?? null);
    } catch {
      // The user's own source of slots threw. The schedule itself reports that.
    }
  }
  return here;
}

/** The run of a slot has it in its metadata. */
function slotOf(lock: LockSummary | undefined): number | null {
  const slot = lock?.holders[0]?.metadata?.slot;
  const slotMs = typeof slot === 'string' ? Date.parse(slot) : Number.NaN;
  return Number.isNaN(slotMs) ? null : slotMs;
}
