import type { Core } from '../core.ts';
import { AcquireTimeoutError, ClosedError, StoreError } from '../errors.ts';
import { DEFAULTS, type Settings } from '../options.ts';
import type { ClaimOutcome, ClaimRef, ClaimRequest, Mode } from '../store/store.ts';
import { viewClaim } from '../view.ts';
import { cleanUp } from './cleanup.ts';
import { isStoreError, isUnknown, sendSafely } from './command.ts';
import type { Grant } from './grant.ts';
import { grantOf } from './granted.ts';
import { backoff } from './pause.ts';
import { type Instant, instant } from './validity.ts';
import { Wait } from './wait.ts';

/** However short the wait, the store gets this long to answer: `waitMs` is for other holders and not for the network. */
const COMMAND_MS_MIN = 1_000;

/** What a caller wants: which lock, how, and on which terms. */
export interface Want {
  readonly name: string;
  readonly mode: Mode;
  readonly settings: Settings;
  /** Chosen by the caller only where several claims belong together. */
  readonly id?: string;
  /** It is enough that the claim was granted: nobody will hold it, and it runs out by itself. */
  readonly detached?: boolean;
}

/** One try. `null` when it is held by another; rejects with a `StoreError` when nobody knows. */
export async function tryAcquire(core: Core, want: Want): Promise<Grant | null> {
  const attempt = begin(core, want);
  try {
    const grant = await attempt.ask(false, DEFAULTS.commandMs);
    if (grant === null) attempt.announceRefusal('held', null);
    return grant;
  } catch (error) {
    attempt.abandon(error);
    throw error;
  } finally {
    attempt.end();
  }
}

/** Waits until it is granted, for `waitMs` at most. Not async itself: each frame that a waiter keeps counts when ten thousand wait. */
export function acquire(core: Core, want: Want): Promise<Grant> {
  return begin(core, want).untilGranted();
}

function begin(core: Core, want: Want): Attempt {
  core.assertOpen();
  want.settings.signal?.throwIfAborted();
  return new Attempt(core, want);
}

class Attempt {
  readonly #core: Core;
  readonly #want: Want;
  readonly #ref: ClaimRef;
  readonly #startedMs: number;
  #wait: Wait | null = null;
  /** Whether the store may have something of ours that must be removed when we give up. */
  #mayStand = false;
  #failure: unknown = null;
  #failures = 0;
  #polls = 0;
  #retryAfterMs: number | null = null;
  #abandoned = false;
  #given: Grant | null = null;
  #failedOnce = false;
  #watch: Promise<AsyncDisposable> | null = null;

  constructor(core: Core, want: Want) {
    this.#core = core;
    this.#want = want;
    this.#ref = { name: want.name, id: want.id ?? core.nextId() };
    this.#startedMs = core.clock.monotonicMs();
    core.beginWork();
    if (want.settings.signal !== undefined) this.#wait = new Wait(core, want.settings.signal);
  }

  get #waitedMs(): number {
    return this.#core.clock.monotonicMs() - this.#startedMs;
  }

  get #leftMs(): number {
    return this.#want.settings.waitMs - this.#waitedMs;
  }

  /**
   * One claim. Rejects as the store does, or with the reason why the wait was cut short. `patient`: a failing store is a reason to try again later, and
   * gives `null`.
   */
  async ask(wait: boolean, limitMs: number, patient = false): Promise<Grant | null> {
    const { clock, commands, store } = this.#core;
    const { mode, settings } = this.#want;
    const sent = instant(clock);
    const stoodBefore = this.#mayStand;
    this.#mayStand = true;
    // Spelled out: a spread here was a third of the time of an uncontended acquire.
    const request: ClaimRequest = {
      name: this.#ref.name,
      id: this.#ref.id,
      mode,
      ttlMs: settings.ttlMs,
      wait,
      note: settings.note,
      fenceAbove: this.#core.fenceSeen,
    };
    const claim = commands.run((signal) => store.claim(request, signal), limitMs, this.#onLateAnswer);
    try {
      const outcome = this.#wait === null ? await claim : await this.#wait.race(claim);
      return this.#take(outcome, sent, wait);
    } catch (error) {
      if (this.#wait?.isStopped === true) this.#cleanUpAfter(claim);
      else if (!isUnknown(error)) this.#mayStand = stoodBefore;
      if (!patient || !isStoreError(error) || this.#wait?.isStopped === true) throw error;
      this.#failure = error;
      this.#failures += 1;
      this.#failedOnce = true;
      return null;
    }
  }

  /**
   * An answer after we had stopped waiting for it. Once we have given up, or have held by a second request and given that back, nobody else will give
   * back what the first one was granted.
   */
  readonly #onLateAnswer = (): void => {
    if (this.#abandoned) cleanUp(this.#core, this.#ref, this.#want.settings.ttlMs);
    else this.#given?.onLateClaim();
  };

  /** The abort won, but the claim is still on its way: remove it when its answer is there, whatever that is. */
  #cleanUpAfter(claim: Promise<unknown>): void {
    this.#mayStand = false;
    const cleanUpNow = (): void => cleanUp(this.#core, this.#ref, this.#want.settings.ttlMs);
    this.#core.background(claim.then(cleanUpNow, cleanUpNow));
  }

  #take(outcome: ClaimOutcome, sent: Instant, wait: boolean): Grant | null {
    this.#failure = null;
    this.#failures = 0;
    if (!outcome.granted) {
      this.#mayStand = wait;
      this.#retryAfterMs = outcome.retryAfterMs;
      return null;
    }
    // The definite no of `ClosedError` must not hide that the store has given us something.
    if (this.#core.isClosed) throw this.#refuseLate();
    const grant = grantOf(this.#core, this.#ref, this.#want, outcome, sent);
    // Asking again by the same id is how we learn what is left of it, if anything is.
    if (grant === null)
      throw new StoreError('The answer took longer than what it granted', { applied: 'unknown' });
    this.#mayStand = false;
    this.#given = grant;
    // An earlier request of ours may still arrive, and would set the time to this again.
    if (this.#failedOnce) grant.trust.suspect(this.#want.settings.ttlMs);
    this.#announce(grant, outcome.validForMs);
    return grant;
  }

  #refuseLate(): ClosedError {
    cleanUp(this.#core, this.#ref, this.#want.settings.ttlMs);
    return new ClosedError();
  }

  #announce(grant: Grant, validForMs: number): void {
    const { events, owner } = this.#core;
    if (!events.wanted('acquired')) return;
    const waitedMs = this.#waitedMs;
    events.emit('acquired', {
      ...this.#ref,
      owner,
      mode: grant.mode,
      fence: grant.fence,
      waitedMs,
      validForMs,
    });
  }

  #askPatiently(): Promise<Grant | null> {
    const { waitMs } = this.#want.settings;
    const limitMs = waitMs === 0 ? DEFAULTS.commandMs : Math.max(this.#leftMs, COMMAND_MS_MIN);
    return this.ask(waitMs > 0, Math.min(limitMs, DEFAULTS.commandMs), true);
  }

  /**
   * The only waiting loop: claim; when refused, listen, claim again to close the gap, and then sleep until woken or until the store's own safety
   * net says to ask again. While the store is out of reach it tries again, until the wait runs out.
   */
  async untilGranted(): Promise<Grant> {
    try {
      let grant = await this.#askPatiently();
      if (grant !== null) return grant;
      const wait = this.#beginWait();
      while (this.#leftMs > 0) {
        const listening = this.#failure === null && this.#watch === null && (await this.#listen(wait));
        if (!listening) await wait.sleep(Math.min(this.#delayMs(), this.#leftMs));
        grant = await this.#askPatiently();
        if (grant !== null) return grant;
      }
      throw this.#failure ?? (await this.#explainTimeout());
    } catch (error) {
      this.abandon(error);
      throw error;
    } finally {
      this.end();
    }
  }

  #beginWait(): Wait {
    // Whoever closed meanwhile has told everybody who waited then, and us not.
    this.#core.assertOpen();
    this.#wait ??= new Wait(this.#core, undefined);
    this.#wait.keepProcessAlive();
    const { events, owner } = this.#core;
    const { waitMs } = this.#want.settings;
    if (waitMs > 0 && events.wanted('waiting')) events.emit('waiting', { ...this.#ref, owner, waitMs });
    return this.#wait;
  }

  /** Starts to listen. True when that went well: a release may have gone by before, so the next step is to ask. */
  async #listen(wait: Wait): Promise<boolean> {
    wait.throwIfStopped();
    const { commands, store } = this.#core;
    this.#watch = sendSafely(() => store.watch(this.#ref, wait.wake));
    // Disposed of in the background, whenever it arrives.
    this.#watch.catch(() => {});
    const watch = this.#watch;
    try {
      await wait.race(commands.run(() => watch, Math.min(DEFAULTS.commandMs, Math.max(this.#leftMs, 1))));
      return true;
    } catch (error) {
      wait.throwIfStopped();
      if (!isStoreError(error)) throw error;
      // Wake-ups are a hint; without them we poll. The next round tries to listen again.
      this.#stopWatching();
      this.#retryAfterMs = null;
      return false;
    }
  }

  /** How long to sleep when nothing wakes us. */
  #delayMs(): number {
    const { clock } = this.#core;
    const { pollMs, pollBound } = this.#want.settings;
    if (this.#failure !== null) return backoff(clock, this.#failures, pollMs);
    if (this.#retryAfterMs === null) return backoff(clock, this.#polls++, pollMs);
    const polled = pollBound ? backoff(clock, this.#polls++, pollMs) : Number.POSITIVE_INFINITY;
    return Math.min(Math.max(this.#retryAfterMs, 1), polled);
  }

  async #explainTimeout(): Promise<AcquireTimeoutError> {
    const waitedMs = this.#waitedMs;
    const { commands, store } = this.#core;
    const { name, id } = this.#ref;
    try {
      const claims = await commands.run((signal) => store.read(name, signal), DEFAULTS.explainMs);
      const holders = claims.filter((claim) => claim.granted && claim.id !== id).map(viewClaim);
      const place = claims.filter((claim) => !claim.granted).findIndex((claim) => claim.id === id);
      return new AcquireTimeoutError(name, waitedMs, holders, place < 0 ? null : place + 1);
    } catch {
      return new AcquireTimeoutError(name, waitedMs);
    }
  }

  /** No hold came of it: remove what the store may have of us, in the background. */
  abandon(error: unknown): void {
    this.#abandoned = true;
    if (this.#mayStand) cleanUp(this.#core, this.#ref, this.#want.settings.ttlMs);
    const why =
      error instanceof AcquireTimeoutError
        ? 'timeout'
        : this.#wait?.isStopped === true
          ? 'aborted'
          : 'failed';
    this.announceRefusal(why, error);
  }

  announceRefusal(why: 'held' | 'timeout' | 'aborted' | 'failed', error: unknown): void {
    const { events, owner } = this.#core;
    if (!events.wanted('refused')) return;
    events.emit('refused', { ...this.#ref, owner, waitedMs: this.#waitedMs, why, error });
  }

  end(): void {
    this.#core.endWork();
    this.#wait?.end();
    this.#stopWatching();
  }

  #stopWatching(): void {
    this.#watch?.then((watch) => watch[Symbol.asyncDispose]()).catch(() => {});
    this.#watch = null;
  }
}
