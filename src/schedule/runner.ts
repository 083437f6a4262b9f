import { checkCount, checkKeys, DAY_MS, show } from '../checks.ts';
import { FOREVER_MS } from '../clock.ts';
import type { Core, Served, Stoppable } from '../core.ts';
import { ClosedError } from '../errors.ts';
import { callListener } from '../events.ts';
import { type AcquireRequest, acquire, tryAcquire } from '../hold/acquire.ts';
import type { HeldClaim } from '../hold/held-claim.ts';
import { DEFAULTS, type Settings } from '../options.ts';
import { EXCLUSIVE } from '../primitives/mutex.ts';
import { storedName } from '../use.ts';
import { onAbort } from '../util/abort.ts';
import { backoff, pause, settlesWithin } from '../util/backoff.ts';
import { isStoreError } from '../util/error-code.ts';
import { metadataIn } from '../view.ts';
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

/**
 * `done`: the function returned or threw. `interrupted`: it threw after `stop`. `lost`: the hold
 * was lost.
 */
type Ending = 'done' | 'interrupted' | 'lost';

/** The schedule in one process: waits for each slot and runs it, unless another process does. */
export class Runner implements Schedule, Stoppable {
  readonly #core: Core;
  readonly #settings: ScheduleSettings;
  readonly #slotClaims: SlotClaims;
  readonly #stopped = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  readonly #loop: Promise<void>;
  /** Slots up to this instant are settled for this process, even if its clock is set back. */
  #settledUntilMs: number;
  #stopping: Promise<void> | null = null;

  constructor(core: Core, settings: ScheduleSettings) {
    this.#core = core;
    this.#settings = settings;
    this.#slotClaims = new SlotClaims(core, settings.name);
    const nowMs = core.clock.wallMs();
    const latestMs =
      settings.missed === 'once' ? settings.slots.latestUntil(nowMs, nowMs - settings.maxLateMs) : null;
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
    const next = this.#settings.slots.next(Math.max(this.#core.clock.wallMs(), this.#settledUntilMs));
    return next === null ? null : new Date(next);
  }

  async last(): Promise<{ slot: Date; done: boolean } | null> {
    const latest = await this.#core.during(this.#slotClaims.latest());
    return latest === null ? null : { slot: new Date(latest.slotMs), done: latest.isDone };
  }

  async runNow(): Promise<boolean> {
    if (this.#isStopped) throw new ClosedError('This schedule is stopped');
    const held = await tryAcquire(this.#core, this.#request(null));
    if (held === null) return false;
    const mayRun = !this.#isStopped;
    if (mayRun) await this.#run(held, this.#core.clock.wallMs());
    await held.release().catch(() => {});
    if (!mayRun) throw new ClosedError('This schedule is stopped');
    return true;
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
    if (isDrained) return;
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
        const dueMs = slots.latest(this.#settledUntilMs, nowMs);
        if (dueMs === null) {
          await this.#sleepUntil(slots.next(Math.max(nowMs, this.#settledUntilMs)) ?? FOREVER_MS);
        } else if (this.#settings.missed === 'skip') {
          this.#settledUntilMs = dueMs;
          await this.#runOrSkip(dueMs);
        } else {
          this.#settledUntilMs = await this.#runOnce(dueMs);
        }
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        if (!isStoreError(error)) this.#warn(error);
        await pause(clock, backoff(clock, failures++, RETRY), { signal });
      }
    }
  }

  async #sleepUntil(wallMs: number): Promise<void> {
    const { clock } = this.#core;
    const { signal } = this.#stopped;
    while (!signal.aborted && clock.wallMs() < wallMs) {
      await pause(clock, Math.min(wallMs - clock.wallMs(), CLOCK_CHECK_MS), { signal });
    }
  }

  /** Takes the slot, then runs it unless another run is in progress. */
  async #runOrSkip(slotMs: number): Promise<void> {
    const { clock } = this.#core;
    const isLate = (): boolean => clock.wallMs() > slotMs + SKIP_LATE_MS;
    if (isLate()) return;
    const nextMs = this.#settings.slots.next(slotMs) ?? FOREVER_MS;
    const claim = await this.#slotClaims.take(slotMs, {
      rememberMs: SKIP_REMEMBER_MS,
      note: 'started',
      signal: this.#stopped.signal,
      shouldGiveUp: () => this.#isStopped || isLate() || clock.wallMs() >= nextMs,
    });
    if (claim === null || this.#isStopped) return;
    const held = await tryAcquire(this.#core, this.#request(slotMs));
    if (held === null) return;
    const mayRun = !isLate() && !this.#isStopped && held.checkDeadline();
    const ending = mayRun ? await this.#run(held, slotMs) : null;
    if (ending === 'done') await this.#slotClaims.finish(claim, SKIP_REMEMBER_MS).catch(() => {});
    await held.release().catch(() => {});
  }

  /**
   * Waits until no run is in progress, then runs the latest slot unless it has been run. Resolves
   * to the slot that is now settled. Rejects when the store failed: the slot is tried again.
   */
  async #runOnce(dueMs: number): Promise<number> {
    if (this.#isTooLate(dueMs) || (await this.#slotClaims.isTaken(dueMs))) return dueMs;
    const request = this.#request(dueMs);
    const waiting = { ...request.settings, waitMs: FOREVER_MS, signal: this.#stopped.signal };
    const held = await acquire(this.#core, { ...request, settings: waiting });
    try {
      return await this.#runLatest(held, dueMs);
    } finally {
      await held.release().catch(() => {});
    }
  }

  async #runLatest(held: HeldClaim, dueMs: number): Promise<number> {
    const { clock } = this.#core;
    const { slots } = this.#settings;
    // Later slots may have become due while this process waited or was paused.
    const slotMs = slots.latest(dueMs, clock.wallMs()) ?? dueMs;
    if (this.#isTooLate(slotMs) || (await this.#slotClaims.isTaken(slotMs))) return slotMs;
    if (this.#isStopped || !held.checkDeadline()) return slotMs - 1;
    // Checked again: nothing is awaited between this check and the start.
    if (this.#isTooLate(slotMs) || slots.latest(slotMs, clock.wallMs()) !== null) return slotMs;
    const ending = await this.#run(held, slotMs);
    if (ending === 'lost') return slotMs - 1;
    if (ending === 'interrupted') return slotMs;
    const claim = await this.#slotClaims.take(slotMs, {
      rememberMs: this.#rememberMs(slotMs),
      note: 'done',
      shouldGiveUp: () => !held.checkDeadline(),
    });
    return claim === null && !held.checkDeadline() ? slotMs - 1 : slotMs;
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
      if (held.checkDeadline()) return 'done';
      this.#report(held.reason, tick);
      return 'lost';
    } catch (error) {
      const ending = !held.checkDeadline() ? 'lost' : this.#isStopped ? 'interrupted' : 'done';
      if (ending !== 'interrupted') this.#report(error, tick);
      return ending;
    } finally {
      tick.end();
      this.#running.delete(work);
    }
  }

  /**
   * The claim that keeps runs apart. Its note has the slot, for people and for `last`. When later
   * slots become due while the claim waits, the note is not updated: changing it would wake every
   * other waiter.
   */
  #request(slotMs: number | null): AcquireRequest {
    const { claimSettings, name } = this.#settings;
    const note = slotMs === null ? claimSettings.note : this.#noteOf(slotMs);
    const own = { ...claimSettings, waitMs: 0, signal: undefined, note };
    return { name: storedName('schedule', name), mode: EXCLUSIVE, settings: own };
  }

  #noteOf(slotMs: number): string {
    const metadata = metadataIn(this.#settings.claimSettings.note);
    return JSON.stringify({ ...metadata, slot: new Date(slotMs).toISOString() });
  }

  #report(error: unknown, tick: Tick): void {
    const { onError, name } = this.#settings;
    if (onError !== null) callListener('onError', () => onError(error, tick));
    else this.#warn(error, ` in the run of ${tick.slot.toISOString()} of ${JSON.stringify(name)}`);
  }

  #warn(error: unknown, where = ` of ${JSON.stringify(this.#settings.name)}`): void {
    process.emitWarning(`A schedule failed${where}: ${show(error)}`, { code: 'HOLDFAST_SCHEDULE' });
  }
}
