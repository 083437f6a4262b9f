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
import { SlotMemory } from './slot-memory.ts';
import type { Slots } from './slots.ts';
import { RunTick, type Tick } from './tick.ts';

/** The options of a schedule after defaults and checks. */
export interface Terms {
  readonly name: string;
  readonly slots: Slots;
  readonly fn: (tick: Tick) => unknown;
  readonly settings: Settings;
  readonly missed: 'skip' | 'once';
  readonly maxLateMs: number;
  readonly onError: ((error: unknown, tick: Tick) => void) | null;
}

const MINUTE_MS = 60_000;
/** How far the clocks of two processes may be apart. */
const CLOCKS_APART_MS = 5 * MINUTE_MS;
/** With `skip`, a slot is not started later than this. */
const SKIP_LATE_MS = 5 * MINUTE_MS;
/** What is remembered outlives the last possible start by this: clocks also run at different speeds. */
const MARGIN_MS = MINUTE_MS;
const SKIP_REMEMBER_MS = SKIP_LATE_MS + CLOCKS_APART_MS + MARGIN_MS;
/**
 * How often a sleep reads the wall clock: it may be set, and timers stand still while the host is
 * suspended.
 */
const LOOK_MS = 30_000;
const RETRY = { min: 100, max: 2_000 };

/**
 * `done`: the function returned or threw. `interrupted`: it threw after `stop`. `lost`: the hold
 * was lost.
 */
type Ending = 'done' | 'interrupted' | 'lost';

/** The schedule of one process: waits for each slot and runs it, or finds that another process does. */
export class Runner implements Schedule, Stoppable {
  readonly #core: Core;
  readonly #terms: Terms;
  readonly #memory: SlotMemory;
  readonly #stopped = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  readonly #loop: Promise<void>;
  /** Every slot up to this one has been dealt with by this process, whatever its clock does. */
  #dealtWithMs: number;
  #stopping: Promise<void> | null = null;

  constructor(core: Core, terms: Terms) {
    this.#core = core;
    this.#terms = terms;
    this.#memory = new SlotMemory(core, terms.name);
    const nowMs = core.clock.wallMs();
    const latestMs = terms.missed === 'once' ? terms.slots.latestUntil(nowMs, nowMs - terms.maxLateMs) : null;
    this.#dealtWithMs = latestMs === null ? nowMs : latestMs - 1;
    core.stoppables.add(this);
    const stopListening = onAbort(terms.settings.signal, () => void this.stop());
    core.processRef.begin();
    this.#loop = this.#runSlots().finally(stopListening);
  }

  get serves(): Served {
    return { kind: 'schedule', name: this.#terms.name, next: this.next };
  }

  get next(): Date | null {
    if (this.#isStopped) return null;
    const next = this.#terms.slots.next(Math.max(this.#core.clock.wallMs(), this.#dealtWithMs));
    return next === null ? null : new Date(next);
  }

  async last(): Promise<{ slot: Date; done: boolean } | null> {
    const latest = await this.#core.during(this.#memory.latest());
    return latest === null ? null : { slot: new Date(latest.slotMs), done: latest.isDone };
  }

  async runNow(): Promise<boolean> {
    if (this.#isStopped) throw new ClosedError('This schedule is stopped');
    const held = await tryAcquire(this.#core, this.#request(null));
    if (held === null) return false;
    const isRun = !this.#isStopped;
    if (isRun) await this.#run(held, this.#core.clock.wallMs());
    await held.release().catch(() => {});
    if (!isRun) throw new ClosedError('This schedule is stopped');
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
      `A run of the schedule ${JSON.stringify(this.#terms.name)} was still at work ${drainMs} ms after ` +
        'the schedule was stopped; it keeps its hold until it ends',
      { code: 'HOLDFAST_DRAIN' },
    );
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
  }

  async #runSlots(): Promise<void> {
    const { clock } = this.#core;
    const { slots } = this.#terms;
    const { signal } = this.#stopped;
    for (let failures = 0; !signal.aborted; ) {
      try {
        const nowMs = clock.wallMs();
        const dueMs = slots.latest(this.#dealtWithMs, nowMs);
        if (dueMs === null) {
          await this.#sleepUntil(slots.next(Math.max(nowMs, this.#dealtWithMs)) ?? FOREVER_MS);
        } else if (this.#terms.missed === 'skip') {
          this.#dealtWithMs = dueMs;
          await this.#skip(dueMs);
        } else {
          this.#dealtWithMs = await this.#once(dueMs);
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
      await pause(clock, Math.min(wallMs - clock.wallMs(), LOOK_MS), { signal });
    }
  }

  /** Takes the slot, then runs it unless another run is in progress. */
  async #skip(slotMs: number): Promise<void> {
    const { clock } = this.#core;
    const isLate = (): boolean => clock.wallMs() > slotMs + SKIP_LATE_MS;
    if (isLate()) return;
    const nextMs = this.#terms.slots.next(slotMs) ?? FOREVER_MS;
    const claim = await this.#memory.take(slotMs, {
      rememberMs: SKIP_REMEMBER_MS,
      note: 'started',
      signal: this.#stopped.signal,
      isPointless: () => this.#isStopped || isLate() || clock.wallMs() >= nextMs,
    });
    if (claim === null || this.#isStopped) return;
    const held = await tryAcquire(this.#core, this.#request(slotMs));
    if (held === null) return;
    const isRun = !isLate() && !this.#isStopped && held.checkDeadline();
    const ending = isRun ? await this.#run(held, slotMs) : null;
    if (ending === 'done') await this.#memory.finish(claim, SKIP_REMEMBER_MS).catch(() => {});
    await held.release().catch(() => {});
  }

  /**
   * Waits until no run is in progress, then runs the latest slot unless its run has completed.
   * Resolves to the slot that was dealt with. Rejects when the store failed: the slot is tried again.
   */
  async #once(dueMs: number): Promise<number> {
    if (this.#isTooLate(dueMs) || (await this.#memory.isTaken(dueMs))) return dueMs;
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
    const { slots } = this.#terms;
    // Later slots may have come while this process waited, or was stopped.
    const slotMs = slots.latest(dueMs, clock.wallMs()) ?? dueMs;
    if (this.#isTooLate(slotMs) || (await this.#memory.isTaken(slotMs))) return slotMs;
    if (this.#isStopped || !held.checkDeadline()) return slotMs - 1;
    // Checked again: nothing is awaited between this check and the start.
    if (this.#isTooLate(slotMs) || slots.latest(slotMs, clock.wallMs()) !== null) return slotMs;
    const ending = await this.#run(held, slotMs);
    if (ending === 'lost') return slotMs - 1;
    if (ending === 'interrupted') return slotMs;
    const claim = await this.#memory.take(slotMs, {
      rememberMs: this.#rememberMs(slotMs),
      note: 'done',
      isPointless: () => !held.checkDeadline(),
    });
    return claim === null && !held.checkDeadline() ? slotMs - 1 : slotMs;
  }

  #isTooLate(slotMs: number): boolean {
    return this.#core.clock.wallMs() > slotMs + this.#terms.maxLateMs;
  }

  /** Until the last moment at which any process may start the slot, and a little longer. */
  #rememberMs(slotMs: number): number {
    const { maxLateMs, slots } = this.#terms;
    const lastStartMs = Math.min(slots.next(slotMs) ?? FOREVER_MS, slotMs + maxLateMs);
    return Math.max(lastStartMs - this.#core.clock.wallMs(), 0) + CLOCKS_APART_MS + MARGIN_MS;
  }

  /** Calls the function. The caller has checked the lateness in this turn of the event loop. */
  async #run(held: HeldClaim, slotMs: number): Promise<Ending> {
    const { fn, name, settings } = this.#terms;
    const stopped = this.#stopped.signal;
    const tick = new RunTick(this.#core, held, { name, slotMs, note: settings.note, stopped });
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
   * The claim that keeps runs apart. Its note has the slot, for people and for `last`. When later slots
   * come while the claim waits, the note stays as it is: changing it would wake every other waiter.
   */
  #request(slotMs: number | null): AcquireRequest {
    const { name, settings } = this.#terms;
    const note = slotMs === null ? settings.note : this.#noteOf(slotMs);
    const own = { ...settings, waitMs: 0, signal: undefined, note };
    return { name: storedName('schedule', name), mode: EXCLUSIVE, settings: own };
  }

  #noteOf(slotMs: number): string {
    const metadata = metadataIn(this.#terms.settings.note);
    return JSON.stringify({ ...metadata, slot: new Date(slotMs).toISOString() });
  }

  #report(error: unknown, tick: Tick): void {
    const { onError, name } = this.#terms;
    if (onError !== null) callListener('onError', () => onError(error, tick));
    else this.#warn(error, ` in the run of ${tick.slot.toISOString()} of ${JSON.stringify(name)}`);
  }

  #warn(error: unknown, where = ` of ${JSON.stringify(this.#terms.name)}`): void {
    process.emitWarning(`A schedule failed${where}: ${show(error)}`, { code: 'HOLDFAST_SCHEDULE' });
  }
}
