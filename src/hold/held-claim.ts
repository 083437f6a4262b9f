import { FOREVER_MS } from '../clock.ts';
import type { Core } from '../core.ts';
import { HoldLostError, type LossReason } from '../errors.ts';
import type { Settings } from '../options.ts';
import type { ClaimRef } from '../store/store.ts';
import { elapsedMs, type Instant } from '../store/validity.ts';
import { pause } from '../util/backoff.ts';
import { isUnknown } from '../util/error-code.ts';
import { isRetryable, TRY_MS } from './clean-up.ts';
import type { Deadline } from './deadline.ts';

/** How long a release is retried before its caller gets the failure, and the pause between tries. */
const RELEASE_MS = 5_000;
const RELEASE_PAUSE_MS = 200;

/** `releasing`: the user has released the hold, and the store has not confirmed it yet. */
type State = 'held' | 'releasing' | 'released' | 'lost';

/**
 * A granted claim: until when it is trusted, and how it ends. It goes from held to lost or to
 * released and never back. Users see it through the holds of `hold.ts`; `renewals.ts` renews it.
 * Getters never change its state: `checkDeadline` does, and it is called by the timers of the
 * renewals and at the start of every method that acts on the hold.
 */
export class HeldClaim {
  readonly ref: ClaimRef;
  readonly settings: Settings;
  readonly fence: bigint;
  /** On a session store always true: a session has to be confirmed, however long the hold lasts. */
  readonly renew: boolean;
  readonly deadline: Deadline;
  ttlMs: number;
  /** How long after the grant the hold ends, whatever the store says. */
  capMs: number;
  // Up to `isCheckDue`: set and used by `renewals.ts` only.
  index = 0;
  /** The time of the next renewal or retry, and the interval that led to it. */
  dueAtMs = FOREVER_MS;
  everyMs = 0;
  /** When the deadline is next looked at; never while a renewal is sure to notice it. */
  deadlineAtMs = FOREVER_MS;
  /** The pending renewal. There is one at a time, so that answers come in the order of sending. */
  renewing: Promise<void> | null = null;
  /** The store is asked once more when the pending renewal has ended. */
  isCheckDue = false;
  /** Set by `acquire.ts`: an earlier claim request may still reach the server after the last command. */
  mayArriveLate = false;
  readonly #core: Core;
  readonly #grantedAt: Instant;
  #state: State = 'held';
  #endedMs: number | null = null;
  #error: HoldLostError | null = null;
  #controller: AbortController | null = null;
  #releasing: Promise<boolean> | null = null;
  /** The store may have executed a release whose answer was lost. */
  #mayBeReleased = false;
  /** The note of a claim that stays in the store after the hold, and until when it stays. */
  #leftBehind: { readonly note: string; readonly untilMs: number } | null = null;
  /** The claim that was left behind is gone: what is found later is of a request that arrived late. */
  #isLeftBehindGone = false;
  #onEnd: (() => void) | null = null;

  constructor(core: Core, ref: ClaimRef, settings: Settings, fence: bigint, deadline: Deadline) {
    this.#core = core;
    this.ref = ref;
    this.settings = settings;
    this.fence = fence;
    this.ttlMs = settings.ttlMs;
    this.renew = settings.renew || this.#isSession;
    this.deadline = deadline;
    this.#grantedAt = deadline.confirmed.sent;
    this.capMs = settings.maxHoldMs;
    this.#endUnrenewed(settings.ttlMs);
  }

  get #isSession(): boolean {
    return this.#core.store.traits.lifetime === 'session';
  }

  get isHeld(): boolean {
    return this.#state === 'held';
  }

  /** True also when the deadline has passed and nothing has acted on that yet. */
  get isLost(): boolean {
    return this.#state === 'lost' || (this.#state === 'held' && this.remainingMs === 0);
  }

  /** How long the hold can still be trusted, by the local clocks; 0 once lost or released. */
  get remainingMs(): number {
    if (this.#state !== 'held') return 0;
    return Math.max(Math.min(this.deadline.remainingMs(), this.#untilCapMs), 0);
  }

  get #untilCapMs(): number {
    const { capMs } = this;
    return capMs === FOREVER_MS ? capMs : capMs - elapsedMs(this.#core.clock, this.#grantedAt);
  }

  /** Stands still once the hold is over. */
  get heldForMs(): number {
    return (this.#endedMs ?? this.#core.clock.monotonicMs()) - this.#grantedAt.monotonicMs;
  }

  /** Aborts when the hold is lost. Made when it is first read: most holds never need one. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#error !== null) this.#controller.abort(this.#error);
    }
    return this.#controller.signal;
  }

  get reason(): HoldLostError {
    return this.#error ?? new HoldLostError(this.ref.name, this.fence, 'released');
  }

  /** Declares the hold lost once its deadline has passed. Returns whether it is still held. */
  checkDeadline(): boolean {
    if (this.#state !== 'held') return false;
    if (this.remainingMs > 0) return true;
    const how = this.#isSession && this.#untilCapMs > 0 ? 'session' : 'expired';
    this.lose(this.deadline.lossReason() ?? how);
    return false;
  }

  assertHeld(): void {
    if (!this.checkDeadline() || this.#error !== null) throw this.reason;
  }

  /**
   * The user extended the hold. On a session store that moves the end of one with `renew: false`,
   * unless that end has passed already.
   */
  onExtended(ttlMs: number): void {
    this.ttlMs = ttlMs;
    if (this.#untilCapMs > 0) this.#endUnrenewed(elapsedMs(this.#core.clock, this.#grantedAt) + ttlMs);
  }

  /** A session store has no TTLs: there the core itself ends a hold with `renew: false`. */
  #endUnrenewed(afterMs: number): void {
    if (this.#isSession && !this.settings.renew) this.capMs = Math.min(this.settings.maxHoldMs, afterMs);
  }

  /** Calls back once when the hold is over, for whatever reason. */
  whenOver(callback: () => void): void {
    if (this.#state === 'held') this.#onEnd = callback;
    else callback();
  }

  lose(how: LossReason): void {
    if (this.#state !== 'held' && this.#state !== 'releasing') return;
    this.#state = 'lost';
    const error = this.#error ?? this.#lossError(how);
    this.#error = error;
    this.#end();
    this.#controller?.abort(error);
    this.#core.emit('lost', this.ref, { how, error, heldForMs: this.heldForMs });
    // The claims of a session do not expire, so nothing else would ever remove this one.
    if (this.#isSession) this.#removeInBackground();
  }

  /** Names the stall when the loss was caused by a blocked event loop, which sends no renewals. */
  #lossError(how: LossReason): HoldLostError {
    const blockedMs = how === 'expired' ? this.#core.renewals.stalls.report(this, 0) : 0;
    const stall = blockedMs > 0 ? { blockedMs, ttlMs: this.ttlMs } : undefined;
    return new HoldLostError(this.ref.name, this.fence, how, undefined, stall);
  }

  /**
   * Aborts the signal while the claim is still held, so that the user's code ends before a leader
   * resigns or the Locks closes.
   */
  interrupt(how: LossReason): void {
    if (this.#state !== 'held' || this.#error !== null) return;
    this.#error = new HoldLostError(this.ref.name, this.fence, how);
    this.#controller?.abort(this.#error);
  }

  /**
   * True when this call released the hold. Rejects with a `StoreError` when the store did not confirm
   * it; the call may then be repeated.
   */
  release(): Promise<boolean> {
    return this.checkDeadline() ? this.#giveUp() : this.#releaseAgain();
  }

  async #releaseAgain(): Promise<boolean> {
    // Lost by the local clock, but the store may still keep other claims waiting for it.
    if (this.#state === 'lost') this.#removeInBackground();
    else if (this.#releasing !== null) await this.#releasing;
    else if (this.#state === 'releasing') return await this.#giveUp();
    return false;
  }

  /**
   * Ends the hold but leaves the claim in the store, with this note and for this long. False when
   * the claim was gone. Rejects when the store did not confirm it, and then retries in the
   * background for as long as the claim may exist.
   */
  async leaveBehind(ttlMs: number, note: string): Promise<boolean> {
    // A pending renewal could arrive later and shorten the remembered time.
    const core = this.#core;
    let renewal = core.renewals.inFlight(this);
    while (renewal !== null) {
      await core.during(renewal);
      renewal = core.renewals.inFlight(this);
    }
    if (!this.checkDeadline()) return false;
    this.#leftBehind = { note, untilMs: core.clock.monotonicMs() + ttlMs };
    return await this.#giveUp();
  }

  /** Ends the hold without a command to the store: the claim expires by itself. */
  detach(): void {
    this.#state = 'released';
  }

  /** An abandoned claim request of the same id may have been executed after all. */
  onLateClaim(): void {
    const cleanUp = (): void => this.#core.cleanUp.release(this.ref, this.ttlMs);
    if (this.#leftBehind !== null) this.onLateRenewal();
    else if (this.#state !== 'held')
      this.#core.background(Promise.resolve(this.#releasing).then(cleanUp, cleanUp));
  }

  /** An abandoned renewal may have shortened the time of the claim that was left behind. */
  onLateRenewal(): void {
    if (this.#leftBehind !== null) this.#core.cleanUp.send(this.#sendLast, this.ttlMs, this.mayArriveLate);
  }

  /** The last command about this claim: its release, or the renewal that leaves it behind. */
  readonly #sendLast = async (signal: AbortSignal): Promise<boolean> => {
    const { clock, store } = this.#core;
    if (this.#leftBehind === null || this.#isLeftBehindGone) return await store.release(this.ref, signal);
    const { note, untilMs } = this.#leftBehind;
    // A repetition must not prolong it.
    const ttlMs = Math.max(Math.ceil(untilMs - clock.monotonicMs()), 1);
    const { held } = await store.renew(this.ref, { ttlMs, note }, signal);
    this.#isLeftBehindGone = !held;
    return held;
  };

  #giveUp(): Promise<boolean> {
    const { isHeld, remainingMs } = this;
    this.#state = 'releasing';
    this.#releasing = this.#finish();
    // After the assignment above: a callback that releases again then waits for this release.
    // A section that blocks the event loop and then returns ends before any timer could report that.
    if (isHeld) this.#core.renewals.stalls.report(this, remainingMs);
    this.#end();
    return this.#releasing;
  }

  async #finish(): Promise<boolean> {
    const core = this.#core;
    const startedMs = core.clock.monotonicMs();
    const endMs = startedMs + RELEASE_MS;
    core.beginCall();
    try {
      let found: boolean | null = null;
      let isUnanswered = false;
      while (found === null) {
        try {
          const leftMs = endMs - core.clock.monotonicMs();
          found = await core.commands.run(this.#sendLast, Math.min(TRY_MS, leftMs));
        } catch (error) {
          isUnanswered ||= isUnknown(error);
          const isOver = core.clock.monotonicMs() + RELEASE_PAUSE_MS >= endMs;
          if (isOver || !isRetryable(error)) throw error;
          await pause(core.clock, RELEASE_PAUSE_MS);
        }
      }
      this.#releasing = null;
      if (this.mayArriveLate) core.cleanUp.repeatLater(this.#sendLast, this.ttlMs);
      // The claim is gone after a release whose answer was lost: that release removed it.
      const isGivenUp = found || (isUnanswered && this.#leftBehind === null);
      if (isGivenUp || this.#mayBeReleased) this.#state = 'released';
      else this.lose('taken');
      if (isGivenUp && core.events.isHeard('released')) {
        const nowMs = core.clock.monotonicMs();
        const heldForMs = nowMs - this.#grantedAt.monotonicMs;
        core.emit('released', this.ref, { heldForMs, tookMs: nowMs - startedMs });
      }
      return isGivenUp;
    } catch (error) {
      this.#releasing = null;
      core.emit('releaseFailed', this.ref, { error, heldForMs: this.heldForMs });
      if (this.#leftBehind === null) this.#removeInBackground();
      else this.onLateRenewal();
      throw error;
    } finally {
      core.endCall();
    }
  }

  /** Removes what the store may still have of the claim. */
  #removeInBackground(): void {
    if (this.#mayBeReleased) return;
    this.#mayBeReleased = true;
    this.#core.cleanUp.release(this.ref, this.ttlMs, this.mayArriveLate);
  }

  #end(): void {
    this.#endedMs ??= this.#core.clock.monotonicMs();
    this.#core.onHoldEnded(this);
    const onEnd = this.#onEnd;
    this.#onEnd = null;
    onEnd?.();
  }
}
