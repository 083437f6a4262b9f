import type { Core } from '../core.ts';
import { AcquireTimeoutError, ClosedError } from '../errors.ts';
import { DEFAULTS } from '../options.ts';
import type { ClaimOutcome, ClaimRef, ClaimRequest } from '../store/store.ts';
import { Ask } from './ask.ts';
import { isStoreError, isUnknown, sendSafely, unknownOutcome } from './command.ts';
import { cleanUp } from './farewell.ts';
import type { Grant } from './grant.ts';
import { grantOf } from './granted.ts';
import { backoff } from './pause.ts';
import { explainTimeout } from './timeout.ts';
import { disposeQuietly, Wait } from './wait.ts';
import type { Want } from './want.ts';

/** Takes a failure as a promise and adopts it: that is how the stack of a time-out leads to whoever has called. */
type Adopt = (failure: Promise<never>) => void;

/** However short the wait, the store gets this long to answer: `waitMs` is for other holders and not for the network. */
const COMMAND_MS_MIN = 1_000;

/** One caller's way to a grant: from the first claim, through the line, to a hold, a time-out or an abort. */
export class Attempt {
  readonly core: Core;
  readonly #want: Want;
  readonly #ref: ClaimRef;
  readonly #begunMs: number;
  #wait: Wait | null = null;
  /** Whether the store may have something of ours that must be removed when we give up. */
  #mayStand = false;
  #failure: unknown = null;
  /** How often it has slept for as long as it thought best itself. */
  #naps = 0;
  #retryAfterMs: number | null = null;
  #abandoned = false;
  #given: Grant | null = null;
  #failedOnce = false;
  #watch: Promise<AsyncDisposable> | null = null;

  constructor(core: Core, want: Want) {
    const { signal } = want.settings;
    core.assertOpen();
    signal?.throwIfAborted();
    this.core = core;
    this.#want = want;
    this.#ref = { name: want.name, id: want.id ?? core.nextId() };
    this.#begunMs = core.clock.monotonicMs();
    core.beginWork();
    if (signal !== undefined) this.#wait = new Wait(core, signal);
  }

  /** For this claim, unless told since when. */
  #waitedMs(sinceMs = this.#begunMs): number {
    return this.core.clock.monotonicMs() - sinceMs;
  }

  get #leftMs(): number {
    return this.#want.settings.waitMs - this.#waitedMs(this.#want.startedMs);
  }

  /** One try: a grant, or `null` when it is held by another. Fails as the store does, or with the reason why it was cut short. */
  once(done: (grant: Grant | null) => void, failed: Adopt): void {
    const onAnswer = (grant: Grant | null): void => {
      if (grant === null) this.#announceRefusal('held', null);
      this.#end();
      done(grant);
    };
    this.#ask(false, onAnswer, (error) => failed(this.#fail(error)));
  }

  /** Asks, and waits for as long as it may. */
  untilGranted(done: (grant: Grant) => void, failed: Adopt): void {
    const onFailed = (error: unknown): void => failed(this.#fail(error));
    const onAnswer = (grant: Grant | null): void => {
      if (grant === null) {
        this.#waitInLine(done).then(() => failed(this.#timeOut()), onFailed);
        return;
      }
      this.#end();
      done(grant);
    };
    this.#ask(this.#want.settings.waitMs > 0, onAnswer, onFailed);
  }

  /** How long the store may take to answer. */
  get #limitMs(): number {
    const { commandMs } = DEFAULTS;
    if (this.#want.settings.waitMs === 0) return commandMs;
    return Math.min(Math.max(this.#leftMs, COMMAND_MS_MIN), commandMs);
  }

  /** To whoever can `wait`, a failing store is as good as a refusal. */
  #ask(wait: boolean, done: (grant: Grant | null) => void, failed: (error: unknown) => void): void {
    const { mode, settings } = this.#want;
    // Spelled out: a spread here was a third of the time of an uncontended acquire.
    const request: ClaimRequest = {
      name: this.#ref.name,
      id: this.#ref.id,
      mode,
      ttlMs: settings.ttlMs,
      wait,
      note: settings.note,
      fenceAbove: this.core.record.fenceSeen,
    };
    const ask = new Ask(this, request, this.#limitMs, this.#mayStand, done, failed);
    this.#mayStand = true;
    this.#wait?.onStop((reason) => this.#stop(ask, reason));
    this.core.commands.start(ask);
  }

  /** The abort won, but the claim is still on its way: it is removed when its answer is there, whatever that is. */
  #stop(ask: Ask, reason: unknown): void {
    ask.isStopped = true;
    this.#mayStand = false;
    this.core.beginWork();
    ask.failed(reason);
  }

  #isOver(ask: Ask): boolean {
    this.#wait?.onStop(null);
    if (!ask.isStopped) return false;
    this.#cleanUp();
    this.core.endWork();
    return true;
  }

  onAnswer(ask: Ask, outcome: ClaimOutcome): void {
    if (this.#isOver(ask)) return;
    try {
      ask.done(this.#take(outcome, ask));
    } catch (error) {
      this.onFailure(ask, error);
    }
  }

  onFailure(ask: Ask, error: unknown): void {
    if (this.#isOver(ask)) return;
    if (!isUnknown(error)) this.#mayStand = ask.stoodBefore;
    if (!ask.request.wait || !isStoreError(error)) {
      ask.failed(error);
      return;
    }
    this.#failure = error;
    this.#failedOnce = true;
    // Of a store that fails, the last word is not worth much.
    this.#retryAfterMs = null;
    ask.done(null);
  }

  /**
   * An answer after we had stopped waiting for it. Once we have given up, or have held by a second request and given that back, nobody else will give
   * back what the first one was granted.
   */
  onLate(): void {
    if (this.#abandoned) this.#cleanUp();
    else this.#given?.onLateClaim();
  }

  #cleanUp(): void {
    cleanUp(this.core, this.#ref, this.#want.settings.ttlMs);
  }

  #take(outcome: ClaimOutcome, { request, sent }: Ask): Grant | null {
    this.#failure = null;
    if (!outcome.granted) {
      this.#mayStand = request.wait;
      this.#retryAfterMs = outcome.retryAfterMs;
      return null;
    }
    // The definite no of `ClosedError` must not hide that the store has given us something.
    if (this.core.isClosed) {
      this.#cleanUp();
      throw new ClosedError();
    }
    const grant = grantOf(this.core, this.#ref, this.#want, outcome, sent);
    // Asking again by the same id is how we learn what is left of it, if anything is.
    if (grant === null) throw unknownOutcome('The answer came too late');
    this.#mayStand = false;
    if (this.#want.detached !== true) this.#given = grant;
    // An earlier request of ours may still arrive, and would set the time to this again.
    if (this.#failedOnce) grant.trust.suspect(this.#want.settings.ttlMs);
    if (this.core.events.wanted('acquired')) {
      const { mode, fence } = grant;
      const { validForMs } = outcome;
      const waitedMs = this.#waitedMs();
      this.core.emit('acquired', this.#ref, { mode, fence, waitedMs, validForMs });
    }
    return grant;
  }

  /**
   * The only waiting loop, after a first refusal: listen, claim again to close the gap, and then sleep until woken or until the store's own safety
   * net says to ask again. While the store is out of reach it tries again. Resolves when the wait has run out, and never after a grant.
   */
  async #waitInLine(done: (grant: Grant) => void): Promise<void> {
    const wait = this.#beginWait();
    while (this.#leftMs > 0) {
      const listening = this.#failure === null && this.#watch === null && (await this.#listen(wait));
      if (!listening) await wait.sleep(Math.min(this.#delayMs(), this.#leftMs));
      wait.throwIfStopped();
      await this.#refusal(done);
    }
  }

  async #timeOut(): Promise<never> {
    const waitedMs = this.#waitedMs(this.#want.startedMs);
    return await this.#fail(this.#failure ?? (await explainTimeout(this.core, this.#ref, waitedMs)));
  }

  /** Asks. Resolves after a refusal only: a grant goes straight to whoever waits, who goes on before we tidy up. */
  #refusal(done: (grant: Grant) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAnswer = (grant: Grant | null): void => {
        if (grant === null) {
          resolve();
          return;
        }
        done(grant);
        queueMicrotask(() => this.#end());
      };
      this.#ask(true, onAnswer, reject);
    });
  }

  #beginWait(): Wait {
    // Whoever closed meanwhile has told everybody who waited then, and us not.
    this.core.assertOpen();
    this.#wait ??= new Wait(this.core);
    this.#wait.keepProcessAlive();
    const { waitMs } = this.#want.settings;
    if (waitMs > 0) this.core.emit('waiting', this.#ref, { waitMs });
    return this.#wait;
  }

  /** Starts to listen. True when that went well: a release may have gone by before, so the next step is to ask. */
  async #listen(wait: Wait): Promise<boolean> {
    wait.throwIfStopped();
    const { commands, store } = this.core;
    const watch = sendSafely(() => store.watch(this.#ref, wait.wake));
    this.#watch = watch;
    // Disposed of in the background, whenever it arrives.
    watch.catch(() => {});
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
    const { clock } = this.core;
    const { pollMs, pollBound } = this.#want.settings;
    const mostMs = Math.max(this.#retryAfterMs ?? pollMs.max, 1);
    if (this.#retryAfterMs !== null && !pollBound) return mostMs;
    return Math.min(mostMs, backoff(clock, this.#naps++, pollMs));
  }

  /** No hold came of it: remove what the store may have of us, in the background. */
  async #fail(error: unknown): Promise<never> {
    this.#abandoned = true;
    if (this.#mayStand) this.#cleanUp();
    const isStopped = this.#wait?.isStopped === true;
    const why = error instanceof AcquireTimeoutError ? 'timeout' : isStopped ? 'aborted' : 'failed';
    this.#announceRefusal(why, error);
    this.#end();
    throw error;
  }

  #announceRefusal(why: 'held' | 'timeout' | 'aborted' | 'failed', error: unknown): void {
    if (!this.#want.isQuiet) this.core.emit('refused', this.#ref, { waitedMs: this.#waitedMs(), why, error });
  }

  #end(): void {
    this.core.endWork();
    this.#wait?.end();
    this.#stopWatching();
  }

  #stopWatching(): void {
    disposeQuietly(this.#watch);
    this.#watch = null;
  }
}
