import type { Timer } from '../clock.ts';
import type { Core } from '../core.ts';
import { HoldLostError, type LossReason } from '../errors.ts';
import type { Settings } from '../options.ts';
import type { ClaimRef, Mode } from '../store/store.ts';
import { cleanUp } from './cleanup.ts';
import { isStoreError, isUnknown } from './command.ts';
import type { Lane, LaneEntry } from './lane.ts';
import { pause } from './pause.ts';
import { elapsedMs, type Instant, trustedMs } from './validity.ts';

/** `leaving`: the user has given it up, and the store has not confirmed it yet. */
type State = 'held' | 'leaving' | 'released' | 'lost';

/** The last command about a claim. */
interface Farewell {
  /** Resolves to whether it found the claim. */
  send(signal: AbortSignal): Promise<boolean>;
  /** Whether a claim that is gone after a lost reply means that the command whose reply was lost has done its work. */
  readonly goneIsDone: boolean;
}

/** How long a release is tried again before the caller is told that it failed. */
const RELEASE_MS = 5_000;
const RELEASE_TRY_MS = 1_500;
const RELEASE_RETRY_MS = 100;

/**
 * A granted claim and what is known of its validity. The holds in users' hands show it; the keep-alive renews it; nothing else
 * changes it. It goes from held to lost or to released and never back.
 */
export class Grant implements LaneEntry {
  readonly ref: ClaimRef;
  readonly mode: Mode;
  readonly fence: bigint;
  readonly renew: boolean;
  readonly renewEveryMs: number | null;
  readonly grantedAt: Instant;
  readonly #core: Core;
  ttlMs: number;
  /** How long after the grant it ends whatever the store says. */
  capMs: number;
  #state: State = 'held';
  #sent: Instant;
  #trustedMs: number;
  #error: HoldLostError | null = null;
  #controller: AbortController | null = null;
  #leaving: Promise<boolean> | null = null;
  #forgotten = false;
  #leavesClaim = false;

  // The keep-alive's own; here so that a hold costs one object less.
  lane: Lane<LaneEntry> | null = null;
  ahead: LaneEntry | null = null;
  behind: LaneEntry | null = null;
  dueAtMs = 0;
  timer: Timer | null = null;
  renewing: Promise<void> | null = null;
  sessionWatch: Promise<AsyncDisposable> | null = null;

  constructor(
    core: Core,
    ref: ClaimRef,
    mode: Mode,
    settings: Settings,
    fence: bigint,
    sent: Instant,
    validForMs: number,
  ) {
    this.#core = core;
    this.ref = ref;
    this.mode = mode;
    this.fence = fence;
    this.ttlMs = settings.ttlMs;
    this.renew = settings.renew;
    this.renewEveryMs = settings.renewEveryMs;
    this.grantedAt = sent;
    this.capMs = settings.maxHoldMs;
    // A session outlives any TTL, so there the core itself ends a hold that asked not to be renewed.
    if (!settings.renew && this.#isSession) this.capMs = Math.min(this.capMs, settings.ttlMs);
    this.#sent = sent;
    this.#trustedMs = trustedMs(validForMs);
  }

  get #isSession(): boolean {
    return this.#core.store.traits.lifetime === 'session';
  }

  get isHeld(): boolean {
    return this.#state === 'held';
  }

  get isLost(): boolean {
    return this.#state === 'lost';
  }

  /** Over, and nothing of it is meant to stay in the store. */
  get isGivenBack(): boolean {
    return this.#state !== 'held' && !this.#leavesClaim;
  }

  /** Until when it can be trusted, by the local clocks; 0 once lost or released. Notices a loss by time on its own. */
  remainingMs(): number {
    if (this.#state !== 'held') return 0;
    const clock = this.#core.clock;
    let remaining = this.#trustedMs - elapsedMs(clock, this.#sent);
    if (this.capMs !== Number.POSITIVE_INFINITY) {
      remaining = Math.min(remaining, this.capMs - elapsedMs(clock, this.grantedAt));
    }
    if (remaining > 0) return remaining;
    this.lose(this.#isSession ? 'session' : 'expired');
    return 0;
  }

  heldForMs(): number {
    return this.#core.clock.monotonicMs() - this.grantedAt.monotonicMs;
  }

  /** The store has confirmed the claim in answer to a request sent at `sent`. */
  confirm(sent: Instant, validForMs: number): void {
    if (this.#state !== 'held') return;
    this.#sent = sent;
    this.#trustedMs = trustedMs(validForMs);
  }

  lose(how: LossReason): void {
    if (this.#state !== 'held' && this.#state !== 'leaving') return;
    this.#state = 'lost';
    const error = this.#error ?? new HoldLostError(this.ref.name, this.fence, how);
    this.#error = error;
    this.#end();
    this.#controller?.abort(error);
    const { events, owner } = this.#core;
    if (events.wanted('lost')) {
      events.emit('lost', { ...this.ref, owner, how, error, heldForMs: this.heldForMs() });
    }
    // Nothing else would ever free it: a session's locks do not run out.
    if (this.#isSession) this.#forget();
  }

  get signal(): AbortSignal {
    this.remainingMs();
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#error !== null) this.#controller.abort(this.#error);
    }
    return this.#controller.signal;
  }

  /** Tells the user's code to end while the claim is still ours: before a term is handed over, and before a close. */
  interrupt(how: LossReason): void {
    if (this.#state !== 'held' || this.#error !== null) return;
    this.#error = new HoldLostError(this.ref.name, this.fence, how);
    this.#controller?.abort(this.#error);
  }

  /** Throws when the hold cannot be trusted at this instant. */
  assertHeld(): void {
    if (this.remainingMs() > 0 && this.#error === null) return;
    throw this.#error ?? new HoldLostError(this.ref.name, this.fence, 'released');
  }

  /** Whether this call gave it up. Rejects with a `StoreError` when the store did not say; then it may be called again. */
  async release(): Promise<boolean> {
    this.remainingMs();
    if (this.#state === 'lost') {
      // Lost by our clock, but the store may still think it ours and keep others waiting.
      this.#forget();
      return false;
    }
    if (this.#state === 'released') return false;
    if (this.#leaving !== null) {
      await this.#leaving;
      return false;
    }
    return await this.#giveUp({
      send: (signal) => this.#core.store.release(this.ref, signal),
      goneIsDone: true,
    });
  }

  /** Gives the hold up but leaves the claim in the store, with this note and for this long. Otherwise like `release`. */
  async leaveBehind(ttlMs: number, note: string): Promise<boolean> {
    if (this.remainingMs() === 0) return false;
    this.#leavesClaim = true;
    return await this.#giveUp({
      send: async (signal) => (await this.#core.store.renew(this.ref, { ttlMs, note }, signal)).held,
      goneIsDone: false,
    });
  }

  /** Gives the hold up and tells the store nothing: the claim runs out by itself. */
  detach(): void {
    if (this.#state !== 'held') return;
    this.#state = 'released';
    this.#leavesClaim = true;
    this.#end();
  }

  async #giveUp(farewell: Farewell): Promise<boolean> {
    this.#state = 'leaving';
    this.#end();
    this.#leaving = this.#leave(farewell);
    try {
      return await this.#leaving;
    } finally {
      this.#leaving = null;
    }
  }

  async #leave(farewell: Farewell): Promise<boolean> {
    const { clock, events, owner } = this.#core;
    const startedMs = clock.monotonicMs();
    try {
      if (!(await this.#sendUntilAnswered(farewell, startedMs + RELEASE_MS))) {
        this.lose('taken');
        return false;
      }
    } catch (error) {
      if (events.wanted('releaseFailed')) {
        events.emit('releaseFailed', { ...this.ref, owner, error, heldForMs: this.heldForMs() });
      }
      if (farewell.goneIsDone) this.#forget();
      throw error;
    }
    this.#state = 'released';
    if (events.wanted('released')) {
      const tookMs = clock.monotonicMs() - startedMs;
      events.emit('released', { ...this.ref, owner, heldForMs: this.heldForMs(), tookMs });
    }
    return true;
  }

  async #sendUntilAnswered(farewell: Farewell, untilMs: number): Promise<boolean> {
    const { commands, clock } = this.#core;
    for (let unknown = false; ; ) {
      try {
        const done = await commands.run(farewell.send, RELEASE_TRY_MS);
        // Gone after a lost reply: the release whose reply was lost did it, for nobody else could have while it was ours.
        return done || (unknown && farewell.goneIsDone);
      } catch (error) {
        unknown ||= isUnknown(error);
        if (!isStoreError(error) || clock.monotonicMs() + RELEASE_RETRY_MS >= untilMs) throw error;
        await pause(clock, RELEASE_RETRY_MS);
      }
    }
  }

  /** Removes in the background what the store may still have of it. */
  #forget(): void {
    if (this.#forgotten || this.#error?.how === 'taken') return;
    this.#forgotten = true;
    cleanUp(this.#core, this.ref, this.ttlMs);
  }

  /** No more renewals, timers or watches. */
  #end(): void {
    this.#core.keepalive.stop(this);
    this.#core.dropGrant(this);
  }
}

/** Makes a grant of an outcome, or `null` when the answer came too late to be trusted. */
export function grantOf(
  core: Core,
  ref: ClaimRef,
  mode: Mode,
  settings: Settings,
  outcome: { fence: bigint; validForMs: number },
  sent: Instant,
): Grant | null {
  core.sawFence(outcome.fence);
  if (elapsedMs(core.clock, sent) >= trustedMs(outcome.validForMs)) return null;
  const grant = new Grant(core, ref, mode, settings, outcome.fence, sent, outcome.validForMs);
  core.grants.add(grant);
  core.keepalive.start(grant, outcome.validForMs);
  return grant;
}
