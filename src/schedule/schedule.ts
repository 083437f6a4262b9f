import { checkCount, checkKeys, checkName, checkTrait, checkType, DAY_MS, wrong } from '../checks.ts';
import { InvalidArgumentError } from '../errors.ts';
import { coreOf, type Locks } from '../locks.ts';
import { type AcquireOptions, resolve } from '../options.ts';
import { Runner, type ScheduleSettings } from './runner.ts';
import { type SlotSource, Slots } from './slots.ts';
import type { Tick } from './tick.ts';

/** How a schedule runs. Durations are whole milliseconds. */
export interface ScheduleOptions extends Pick<AcquireOptions, 'ttlMs' | 'metadata' | 'signal'> {
  /**
   * An IANA name such as `Europe/Berlin`. Default: the process's own. Only for cron expressions.
   */
  readonly timeZone?: string | undefined;
  /**
   * `skip`, the default: a slot that no process ran in time is missed. `once`: the latest slot that
   * no process ran, or whose run died, is run late.
   */
  readonly missed?: 'skip' | 'once' | undefined;
  /** `once` only: how late a slot may start, at most 365 days. Default: until the next slot. */
  readonly maxLateMs?: number | undefined;
  /**
   * Called when the function threw or its hold was lost. The schedule continues. Default: a process
   * warning (`HOLDFAST_SCHEDULE`).
   */
  onError?(error: unknown, tick: Tick): void;
}

/**
 * A job that many processes schedule, and one of them runs. Keeps the process alive until it is
 * stopped.
 */
export interface Schedule extends AsyncDisposable {
  /** The next slot; `null` when there is none or the schedule is stopped. */
  readonly next: Date | null;
  /**
   * The latest slot that the store remembers, and whether its run has ended. Not done is a run in
   * progress, one that died and, with `skip`, a slot that was missed because another run was in
   * progress. `null` when the store remembers none. Rejects with a `StoreError` when it fails.
   */
  last(): Promise<{ slot: Date; done: boolean } | null>;
  /**
   * Starts an extra run, which never overlaps another. Resolves to true when it has ended, to false
   * when another run is in progress. Waits, for 10 s at most, while processes that queued for a
   * finished slot take their turns. What the function throws goes to `onError`. Rejects with a
   * `StoreError` when the store fails, and with a `ClosedError` once the schedule is stopped.
   */
  runNow(): Promise<boolean>;
  /**
   * No more runs. Aborts the signal of a run in progress and waits for it, at most `drainMs`
   * (default 10,000). A run that continues after that keeps its hold until it ends, and a
   * `HOLDFAST_DRAIN` process warning says so. Never rejects.
   */
  stop(options?: { drainMs?: number | undefined }): Promise<void>;
}

const LATE_MAX_MS = 365 * DAY_MS;
const OPTION_KEYS = ['ttlMs', 'metadata', 'signal', 'timeZone', 'missed', 'maxLateMs', 'onError'];

/**
 * Runs the function at each slot in one of the processes that have this schedule. `when` is a cron
 * expression of 5 or 6 fields, or names its slots by `next(after)`.
 *
 * While the clocks of the processes are at most 5 minutes apart, each slot completes at most once.
 * With `missed: 'skip'` it also starts at most once; with `'once'` it starts again only after its
 * run died. Two runs never overlap: a slot that becomes due during a run is missed. A slot is not
 * started when it is later than 5 minutes (`maxLateMs` with `'once'`).
 *
 * Throws `UnsupportedError` on a store that does not remember, `InvalidArgumentError` for a bad
 * argument, `ClosedError` when the Locks is closed, and the signal's reason when it has aborted.
 */
export function schedule(
  locks: Locks,
  name: string,
  when: string | SlotSource,
  fn: (tick: Tick) => unknown,
  options: ScheduleOptions = {},
): Schedule {
  const core = coreOf(locks);
  checkTrait(core.store, 'remembers', 'schedule');
  checkKeys(options, OPTION_KEYS);
  const { missed = 'skip', maxLateMs, onError, timeZone, ttlMs, metadata, signal } = options;
  if (missed !== 'skip' && missed !== 'once') throw wrong('missed', "'skip' or 'once'", missed);
  if (maxLateMs !== undefined && missed === 'skip')
    throw new InvalidArgumentError('maxLateMs', "needs missed: 'once'; skip has a bound of 5 minutes");
  if (onError !== undefined) checkType('onError', onError, 'function');
  const settings: ScheduleSettings = {
    name: checkName(name),
    slots: new Slots(when, timeZone),
    fn: checkType('fn', fn, 'function'),
    claimSettings: resolve(core.settings, { ttlMs, metadata, signal }),
    missed,
    maxLateMs: checkCount('maxLateMs', maxLateMs ?? LATE_MAX_MS, 1, LATE_MAX_MS),
    onError: onError === undefined ? null : (error, tick) => onError.call(options, error, tick),
  };
  // A source with invalid slots must throw here, not at the first slot.
  settings.slots.next(core.clock.wallMs());
  core.assertOpen();
  signal?.throwIfAborted();
  return new Runner(core, settings);
}
