import { checkCount, checkKeys, DAY_MS, show } from '../checks.ts';
import { FOREVER_MS } from '../clock.ts';
import type { Core, Served, Stoppable } from '../core.ts';
import { ClosedError } from '../errors.ts';
import { callListener } from '../events.ts';
import type { HeldClaim } from '../hold/held-claim.ts';
import { DEFAULTS, type Settings } from '../options.ts';
import { onAbort } from '../util/abort.ts';
import { backoff, pause, settlesWithin } from '../util/backoff.ts';
import { isStoreError } from '../util/error-code.ts';
import { RunClaim } from './run-claim.ts';
import type { Schedule } from './schedule.ts';
import { SlotClaims } from './slot-claims.ts';
import type { Slots } from './slots.ts';
import { RunTick, type Tick } from './tick.ts';

/** The options of a schedule after defaults and checks. */
export interface ScheduleSettings {
  readonly name: string;
  readonly slots: Slots;
  readonly fn: (tick: Tick) => unknown;
  /** For the claim that keeps runs apart. */
  readonly claimSettings: Settings;
  readonly missed: 'skip' | 'once';
  readonly maxLateMs: number;
  readonly onError: ((error: unknown, tick: Tick) => void) | null;
}

const MINUTE_MS = 60_000;
/** How far the clocks of two processes may be apart. */
const CLOCKS_APART_MS = 5 * MINUTE_MS;
/** With `skip`, a slot is not started later than this. */
const SKIP_LATE_MS = 5 * MINUTE_MS;
/**
 * Slots are remembered this much longer than the last possible start, because clocks also drift.
 */
const MARGIN_MS = MINUTE_MS;
const SKIP_REMEMBER_MS = SKIP_LATE_MS + CLOCKS_APART_MS + MARGIN_MS;
/**
 * A sleep wakes this often to read the wall clock, which may have been set. Timers also stop while
 * the host is suspended.
 */
const CLOCK_CHECK_MS = 30_000;
const RETRY = { min: 100, max: 2_000 };
/** The pause before a slot is run again, after its run has lost its hold or could not be recorded. */
const RERUN = { min: 1_000, max: 60_000 };
/** How often a process looks for a later slot while it has the claim, before others may have it. */
const LATEST_TRIES_MAX = 5;
/** How long `runNow` waits for processes that have the claim, but do not run. */
const RUN_NOW_MS = 10_000;

interface Ending {
  readonly tick: Tick;
  /**
   * `done`: the function returned or threw. `interrupted`: it threw after `stop`. `lost`: the hold was
   * lost.
   */
  readonly how: 'done' | 'interrupted' | 'lost';
}

/** The schedule in one process: waits for each slot and runs it, unless another process does. */
export class Runner implements Schedule, Stoppable {
  readonly #core: Core;
  readonly #settings: ScheduleSettings;
  readonly #slotClaims: SlotClaims;
  readonly #runClaim: RunClaim;
  readonly #stopped = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  readonly #loop: Promise<void>;
  /** Slots up to this instant are settled for this process, even if its clock is set back a little. */
  #settledUntilMs: number;
  /** How many runs in a row, with `once`, have lost their holds or could not be recorded. */
  #losses = 0;
  /** The failure that was reported last, until a slot is dealt with or waited for. */
  #warnedOf: string | null = null;
  #stopping: Promise<void> | null = null;

  constructor(core: Core, settings: ScheduleSettings) {
    this.#core = core;
    this.#settings = settings;
    this.#slotClaims = new SlotClaims(core, settings.name);
    this.#runClaim = new RunClaim(core, settings.name, settings.claimSettings, this.#slotClaims);
    const nowMs = core.clock.wallMs();
    const latestMs =
      settings.missed === 'once' ? settings.slots.latest(nowMs - settings.maxLateMs, nowMs) : null;
    this.#settledUntilMs = latestMs === null ? nowMs : latestMs - 1;
    core.stoppables.add(this);
    const stopListening = onAbort(settings.claimSettings.signal, () => void this.stop());
    core.processRef.begin();
    this.#loop = this.#runSlots().finally(stopListening);
  }

  get serves(): Served {
    return { kind: 'schedule', name: this.#settings.name, next: this.next };
  }

  get next(): Date | null {
    if (this.#isStopped) return null;
    const nowMs = this.#core.clock.wallMs();
    const next = this.#settings.slots.next(Math.max(nowMs, this.#settledAt(nowMs)));
    return next === null ? null : new Date(next);
  }

  async last(): Promise<{ slot: Date; done: boolean } | null> {
    const running = this.#runClaim.runningSlotMs();
    const latest = await this.#core.during(running.then((slotMs) => this.#slotClaims.latest(slotMs)));
    return latest === null ? null : { slot: new Date(latest.slotMs), done: latest.isDone };
  }

  async runNow(): Promise<boolean> {
    if (this.#isStopped) throw new ClosedError('This schedule is stopped');
    const { clock } = this.#core;
    const untilMs = clock.monotonicMs() + RUN_NOW_MS;
    const held = await this.#core.during(
      this.#runClaim.tryForExtraRun({
        signal: this.#stopped.signal,
        shouldGiveUp: () => this.#isStopped || clock.monotonicMs() > untilMs,
      }),
    );
    const mayRun = !this.#isStopped;
    if (held !== null && mayRun) await this.#run(held, clock.wallMs());
    await held?.release().catch(() => {});
    if (!mayRun) throw new ClosedError('This schedule is stopped');
    return held !== null;
  }

  async stop(options: { drainMs?: number | undefined } = {}): Promise<void> {
    checkKeys(options, ['drainMs']);
    const drainMs = checkCount('drainMs', options.drainMs ?? DEFAULTS.drainMs, 0, DAY_MS);
    this.#stopping ??= this.#stop(drainMs);
    await this.#stopping;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #stop(drainMs: number): Promise<void> {
    const { clock, processRef, stoppables } = this.#core;
    this.#stopped.abort(new ClosedError('This schedule is stopped'));
    const ended = Promise.allSettled([this.#loop, ...this.#running]);
    const isDrained = await settlesWithin(clock, ended, drainMs);
    processRef.end();
    stoppables.delete(this);
    // What is left may also be a command to the store, after which nothing is started.
    if (isDrained || this.#running.size === 0) return;
    process.emitWarning(
      `A run of the schedule ${JSON.stringify(this.#settings.name)} was still at work ${drainMs} ms after ` +
        'the schedule was stopped; it keeps its hold until it ends',
      { code: 'HOLDFAST_DRAIN' },
    );
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
  }

  async #runSlots(): Promise<void> {
    const { clock } = this.#core;
    const { slots } = this.#settings;
    const { signal } = this.#stopped;
    for (let failures = 0; !signal.aborted; ) {
      try {
        const nowMs = clock.wallMs();
        this.#settledUntilMs = this.#settledAt(nowMs);
        const dueMs = slots.latest(this.#settledUntilMs, nowMs);
        if (dueMs === null) {
          await this.#sleepUntil(slots.next(Math.max(nowMs, this.#settledUntilMs)) ?? FOREVER_MS);
        } else if (this.#settings.missed === 'skip') {
          this.#settledUntilMs = dueMs;
          await this.#runOrSkip(dueMs);
        } else {
          const before = this.#losses;
          this.#settledUntilMs = await this.#runOnce(dueMs);
          if (this.#losses > before) await this.#pauseAfterLoss();
          else this.#losses = 0;
        }
        failures = 0;
        this.#warnedOf = null;
      } catch (error) {
        if (signal.aborted) return;
        if (!isStoreError(error)) this.#warnOnce(error);
        await pause(clock, backoff(clock, failures++, RETRY), { signal });
      }
    }
  }

  /** Ends early when the clock is set back: another slot may then be the next. */
  async #sleepUntil(wallMs: number): Promise<void> {
    const { clock } = this.#core;
    const { signal } = this.#stopped;
    for (let nowMs = clock.wallMs(); !signal.aborted && nowMs < wallMs; ) {
      await pause(clock, Math.min(wallMs - nowMs, CLOCK_CHECK_MS), { signal });
      const laterMs = clock.wallMs();
      if (laterMs < nowMs) return;
      nowMs = laterMs;
    }
  }

  /** Ends when the next slot is due, which need not lose its hold too. */
  async #pauseAfterLoss(): Promise<void> {
    const { clock } = this.#core;
    const nowMs = clock.wallMs();
    const nextMs = this.#settings.slots.next(nowMs) ?? FOREVER_MS;
    const delayMs = Math.min(backoff(clock, this.#losses - 1, RERUN), nextMs - nowMs);
    await pause(clock, delayMs, { signal: this.#stopped.signal });
  }

  /**
   * A clock that was set back by more than clocks may be apart was wrong before, and the process
   * follows it: otherwise it would start nothing until its old time is reached again.
   */
  #settledAt(nowMs: number): number {
    return this.#settledUntilMs - nowMs > CLOCKS_APART_MS ? nowMs : this.#settledUntilMs;
  }

  /** Takes the slot, then runs it unless another run is in progress. */
  async #runOrSkip(slotMs: number): Promise<void> {
    const { clock } = this.#core;
    const isLate = (): boolean => clock.wallMs() > slotMs + SKIP_LATE_MS;
    if (isLate()) return;
    const nextMs = this.#settings.slots.next(slotMs) ?? FOREVER_MS;
    const { signal } = this.#stopped;
    const shouldGiveUp = (): boolean => this.#isStopped || isLate() || clock.wallMs() >= nextMs;
    const forSlot = { rememberMs: SKIP_REMEMBER_MS, note: 'started', signal, shouldGiveUp } as const;
    const claim = await this.#slotClaims.take(slotMs, forSlot);
    if (claim === null || this.#isStopped) return;
    const held = await this.#runClaim.tryForSlot(slotMs, { signal, shouldGiveUp });
    if (held === null) return;
    const mayRun = !isLate() && !this.#isStopped && held.checkDeadline();
    const ending = mayRun ? await this.#run(held, slotMs) : null;
    if (ending?.how === 'done') await this.#slotClaims.finish(claim, SKIP_REMEMBER_MS).catch(() => {});
    await held.release().catch(() => {});
  }

  /**
   * Waits until no run is in progress, then runs the latest slot unless it has been run. Resolves
   * to the slot that is now settled. Rejects when the store failed: the slot is tried again.
   */
  async #runOnce(dueMs: number): Promise<number> {
    if (this.#isTooLate(dueMs) || (await this.#slotClaims.isTaken(dueMs))) return dueMs;
    const held = await this.#runClaim.acquire(dueMs, this.#stopped.signal);
    try {
      return await this.#runLatest(held, dueMs);
    } finally {
      await held.release().catch(() => {});
    }
  }

  /**
   * Later slots may have become due while this process waited, was paused or asked the store. It
   * keeps the claim for those: at the end of the queue it could miss the next slot too.
   */
  async #runLatest(held: HeldClaim, dueMs: number): Promise<number> {
    const { clock } = this.#core;
    const { slots } = this.#settings;
    let shownMs = dueMs;
    for (let tries = 0; tries < LATEST_TRIES_MAX; tries += 1) {
      const slotMs = slots.latest(shownMs, clock.wallMs()) ?? shownMs;
      if (this.#isTooLate(slotMs) || (await this.#slotClaims.isTaken(slotMs))) return slotMs;
      if (slotMs !== shownMs && !(await this.#runClaim.showSlot(held, slotMs))) return slotMs - 1;
      shownMs = slotMs;
      if (this.#isStopped || !held.checkDeadline()) return slotMs - 1;
      // Checked again: nothing is awaited between this check and the start.
      if (this.#isTooLate(slotMs)) return slotMs;
      if (slots.latest(slotMs, clock.wallMs()) === null) return await this.#runSlot(held, slotMs);
    }
    return shownMs;
  }

  /** Runs the slot under the claim, and records that it is done. Resolves as `#runOnce` does. */
  async #runSlot(held: HeldClaim, slotMs: number): Promise<number> {
    const { how, tick } = await this.#run(held, slotMs);
    if (how === 'interrupted') return slotMs;
    if (how === 'lost') {
      this.#losses += 1;
      return slotMs - 1;
    }
    const claim = await this.#slotClaims.take(slotMs, {
      rememberMs: this.#rememberMs(slotMs),
      note: 'done',
      shouldGiveUp: () => !held.checkDeadline(),
    });
    if (claim === null && !held.checkDeadline()) {
      this.#losses += 1;
      this.#report(held.reason, tick);
      return slotMs - 1;
    }
    return slotMs;
  }

  #isTooLate(slotMs: number): boolean {
    return this.#core.clock.wallMs() > slotMs + this.#settings.maxLateMs;
  }

  /** Until the last moment at which any process may start the slot, and a little longer. */
  #rememberMs(slotMs: number): number {
    const { maxLateMs, slots } = this.#settings;
    const lastStartMs = Math.min(slots.next(slotMs) ?? FOREVER_MS, slotMs + maxLateMs);
    return Math.max(lastStartMs - this.#core.clock.wallMs(), 0) + CLOCKS_APART_MS + MARGIN_MS;
  }

  /** Calls the function. The caller has checked the lateness in this turn of the event loop. */
  async #run(held: HeldClaim, slotMs: number): Promise<Ending> {
    const { claimSettings, fn, name } = this.#settings;
    const stopped = this.#stopped.signal;
    const tick = new RunTick(this.#core, held, { name, slotMs, note: claimSettings.note, stopped });
    const work = (async () => fn(tick))();
    this.#running.add(work);
    try {
      await work;
      if (held.checkDeadline()) return { tick, how: 'done' };
      this.#report(held.reason, tick);
      return { tick, how: 'lost' };
    } catch (error) {
      const how = !held.checkDeadline() ? 'lost' : this.#isStopped ? 'interrupted' : 'done';
      if (how !== 'interrupted') this.#report(error, tick);
      return { tick, how };
    } finally {
      tick.end();
      this.#running.delete(work);
    }
  }

  #report(error: unknown, tick: Tick): void {
    const { onError, name } = this.#settings;
    if (onError !== null) callListener('onError', () => onError(error, tick));
    else this.#warn(error, ` in the run of ${tick.slot.toISOString()} of ${JSON.stringify(name)}`);
  }

  /** A `when` that keeps failing in the same way is reported once. */
  #warnOnce(error: unknown): void {
    const text = show(error);
    if (text !== this.#warnedOf) this.#warn(error);
    this.#warnedOf = text;
  }

  #warn(error: unknown, where = ` of ${JSON.stringify(this.#settings.name)}`): void {
    process.emitWarning(`A schedule failed${where}: ${show(error)}`, { code: 'HOLDFAST_SCHEDULE' });
  }
}
