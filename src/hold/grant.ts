import { FOREVER_MS, type Timer } from '../clock.ts';
import type { Core } from '../core.ts';
import { HoldLostError, type LossReason } from '../errors.ts';
import type { Settings } from '../options.ts';
import type { ClaimRef, Mode } from '../store/store.ts';
import type { Bagged } from './bag.ts';
import { ANSWER_MS, type Answer, cleanUp, insist, sendAgain, TRY_MS } from './farewell.ts';
import { Trust } from './trust.ts';
import { elapsedMs, type Instant } from './validity.ts';

/** `leaving`: the user has given it up, and the store has not confirmed it yet. */
type State = 'held' | 'leaving' | 'released' | 'lost';

/** What a hold that is over leaves in the store on purpose. */
interface Keepsake {
  readonly ttlMs: number;
  readonly note: string;
}

/**
 * A granted claim and what is known of its validity. The holds in users' hands show it; the keep-alive renews it; nothing else
 * changes it. It goes from held to lost or to released and never back.
 */
export class Grant implements Bagged {
  readonly ref: ClaimRef;
  readonly mode: Mode;
  readonly fence: bigint;
  readonly renew: boolean;
  readonly renewEveryMs: number | null;
  readonly grantedAt: Instant;
  readonly #core: Core;
  readonly trust: Trust;
  ttlMs: number;
  readonly #maxHoldMs: number;
  /** On a session store, which has no times of its own: how long after the grant an unrenewed hold ends. */
  #unrenewedMs = FOREVER_MS;
  #state: State = 'held';
  #error: HoldLostError | null = null;
  #controller: AbortController | null = null;
  #leaving: Promise<boolean> | null = null;
  /** A release may have been carried out whose answer nobody has heard. */
  #mayBeReleased = false;
  #keepsake: Keepsake | null = null;
  #onEnd: (() => void) | null = null;

  place = 0;
  // The keep-alive's own; here so that a hold costs one object less.
  /** How often it is renewed, and when the next time is due. */
  everyMs = 0;
  dueAtMs = FOREVER_MS;
  timer: Timer | null = null;
  retry: Timer | null = null;
  renewing: Promise<unknown> | null = null;
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
    // A session has to be confirmed however long the hold is to last.
    this.renew = settings.renew || this.#isSession;
    this.renewEveryMs = settings.renewEveryMs;
    this.grantedAt = sent;
    this.trust = new Trust(core.clock, sent, validForMs, !this.#isSession);
    this.#maxHoldMs = settings.maxHoldMs;
    if (this.renew && !settings.renew) this.#unrenewedMs = settings.ttlMs;
  }

  /** A session outlives any TTL, so there the core itself ends a hold that asked not to be renewed. The user has moved that end. */
  moveEnd(ttlMs: number): void {
    if (this.#unrenewedMs !== FOREVER_MS) this.#unrenewedMs = this.heldForMs() + ttlMs;
  }

  /** How long after the grant it ends whatever the store says. */
  get capMs(): number {
    return Math.min(this.#maxHoldMs, this.#unrenewedMs);
  }

  get #isSession(): boolean {
    return this.#core.store.traits.lifetime === 'session';
  }

  get isHeld(): boolean {
    return this.#state === 'held';
  }

  /** Also by time, at this instant. */
  get isLost(): boolean {
    this.remainingMs();
    return this.#state === 'lost';
  }

  /** Until when it can be trusted, by the local clocks; 0 once lost or released. Notices a loss by time on its own. */
  remainingMs(): number {
    if (this.#state !== 'held') return 0;
    const trusted = this.trust.remainingMs();
    const { capMs } = this;
    const capped = capMs === FOREVER_MS ? capMs : capMs - elapsedMs(this.#core.clock, this.grantedAt);
    if (trusted > 0 && capped > 0) return Math.min(trusted, capped);
    this.lose(this.#isSession && capped > 0 ? 'session' : 'expired');
    return 0;
  }

  heldForMs(): number {
    return this.#core.clock.monotonicMs() - this.grantedAt.monotonicMs;
  }

  /** Called once when it is over, however. */
  whenOver(callback: () => void): void {
    if (this.#state === 'held') this.#onEnd = callback;
    else callback();
  }

  lose(how: LossReason): void {
    if (this.#state !== 'held' && this.#state !== 'leaving') return;
    this.#state = 'lost';
    const error = this.#error ?? new HoldLostError(this.ref.name, this.fence, how);
    this.#error = error;
    this.#end();
    this.#controller?.abort(error);
    this.#core.emit('lost', this.ref, { how, error, heldForMs: this.heldForMs() });
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
    if (this.remainingMs() === 0 || this.#error !== null) throw this.reason;
  }

  /** Why it is over. */
  get reason(): HoldLostError {
    return this.#error ?? new HoldLostError(this.ref.name, this.fence, 'released');
  }

  /** Whether this call gave it up. Rejects with a `StoreError` when the store did not say; then it may be called again. */
  release(): Promise<boolean> {
    if (this.remainingMs() === 0) return this.#releaseAgain();
    return this.#giveUp();
  }

  async #releaseAgain(): Promise<boolean> {
    // Lost by our clock, but the store may still think it ours and keep others waiting.
    if (this.#state === 'lost') this.#forget();
    else if (this.#leaving !== null) await this.#leaving;
    else if (this.#state === 'leaving') return await this.#giveUp();
    return false;
  }

  /**
   * Gives the hold up but leaves the claim in the store, with this note and for this long. False when it was gone. Rejects when the store did not say, and
   * then goes on trying for as long as the claim may stand.
   */
  async leaveBehind(ttlMs: number, note: string): Promise<boolean> {
    // A renewal on its way could arrive after the farewell and cut its time short.
    while (this.renewing !== null) await this.renewing;
    if (this.remainingMs() === 0) return false;
    this.#keepsake = { ttlMs, note };
    return await this.#giveUp();
  }

  /** The last that the store hears of it. */
  #farewell(signal: AbortSignal): Promise<boolean> {
    const { store } = this.#core;
    if (this.#keepsake === null) return store.release(this.ref, signal);
    return store.renew(this.ref, this.#keepsake, signal).then(({ held }) => held);
  }

  /** Gives the hold up and tells the store nothing: the claim runs out by itself. */
  detach(): void {
    this.#state = 'released';
  }

  /** A claim of the same id, given up long ago, may have been carried out after all. */
  onLateClaim(): void {
    if (this.#state === 'held' || this.#keepsake !== null) {
      this.onLateRenewal();
      return;
    }
    const cleanUpNow = (): void => cleanUp(this.#core, this.ref, this.ttlMs);
    if (this.#leaving === null) cleanUpNow();
    else this.#core.background(this.#leaving.then(cleanUpNow, cleanUpNow));
  }

  /** A renewal, given up long ago, may have cut short what was left behind. */
  onLateRenewal(): void {
    if (this.#state !== 'held' && this.#keepsake !== null) this.#insist();
  }

  #insist(): void {
    insist(this.#core, (signal) => this.#farewell(signal), this.ttlMs);
  }

  #giveUp(): Promise<boolean> {
    const core = this.#core;
    const startedMs = core.clock.monotonicMs();
    this.#state = 'leaving';
    core.beginWork();
    const send = (signal: AbortSignal): Promise<boolean> => this.#farewell(signal);
    const left = (answer: Answer): boolean => this.#left(answer, startedMs);
    const leaving = new Promise<boolean>((resolve) => {
      const onAnswer = (found: boolean): void => resolve(left({ found, unknown: false }));
      const onFailure = (error: unknown): void =>
        resolve(
          sendAgain(core, send, error, startedMs + ANSWER_MS).then(left, (failure) => {
            this.#stay(failure);
            throw failure;
          }),
        );
      core.commands.start({ limitMs: TRY_MS, send, onAnswer, onFailure });
    });
    this.#leaving = leaving;
    // Whoever is told of it now may give it up once more, and then waits for this.
    this.#end();
    return leaving;
  }

  #left({ found, unknown }: Answer, startedMs: number): boolean {
    this.#leaving = null;
    // Gone after a release whose answer was lost: that one did it.
    const given = found || (unknown && this.#keepsake === null);
    if (given || this.#mayBeReleased) this.#state = 'released';
    else this.lose('taken');
    if (given && this.#core.events.wanted('released')) {
      const tookMs = this.#core.clock.monotonicMs() - startedMs;
      this.#core.emit('released', this.ref, { heldForMs: this.heldForMs(), tookMs });
    }
    this.#core.endWork();
    return given;
  }

  /** Nobody knows whether it is gone. */
  #stay(error: unknown): void {
    this.#leaving = null;
    this.#core.emit('releaseFailed', this.ref, { error, heldForMs: this.heldForMs() });
    if (this.#keepsake === null) this.#forget();
    else this.#insist();
    this.#core.endWork();
  }

  /** Removes in the background what the store may still have of it. */
  #forget(): void {
    if (this.#mayBeReleased || this.#error?.how === 'taken') return;
    this.#mayBeReleased = true;
    cleanUp(this.#core, this.ref, this.ttlMs);
  }

  /** No more renewals, timers or watches. */
  #end(): void {
    this.#core.keepalive.stop(this);
    this.#core.dropGrant(this);
    const onEnd = this.#onEnd;
    this.#onEnd = null;
    onEnd?.();
  }
}
