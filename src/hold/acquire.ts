import type { Core } from '../core.ts';
import { AcquireTimeoutError, ClosedError } from '../errors.ts';
import { DEFAULTS, type Settings } from '../options.ts';
import type { ClaimOutcome, ClaimRef, Mode, PushedGrant, StoredClaim, Waiter } from '../store/store.ts';
import { type Instant, instant } from '../store/validity.ts';
import { backoff } from '../util/backoff.ts';
import { sendSafely } from '../util/command.ts';
import { codeOf, isStoreError, isUnknown, unknownOutcome } from '../util/error-code.ts';
import { type ClaimView, HOLDERS_MAX, viewClaim } from '../view.ts';
import { type AcquireOutcome, type AcquireTrace, beginTrace, endTrace, inTrace } from './acquire-trace.ts';
import { HeldClaim } from './held-claim.ts';
import { type ArrivedGrant, Wait } from './wait.ts';

export interface AcquireRequest {
  readonly name: string;
  readonly mode: Mode;
  readonly settings: Settings;
  /** Set where several claims belong together, and for candidates. */
  readonly id?: string;
  /** By the monotonic clock. Set where the wait began with other claims. */
  readonly startedMs?: number;
  /** A refusal emits no event. */
  readonly isQuiet?: boolean;
  /** Called after every refusal. Resolves to true when a grant would be useless by now. */
  readonly isDone?: () => Promise<boolean>;
  /** Only the grant matters: the claim is neither renewed nor released, and expires by itself. */
  readonly detached?: boolean;
}

type Refusal = Exclude<AcquireOutcome, 'acquired'>;

/** However short the wait, the store gets this long to answer: `waitMs` is for other holders. */
const COMMAND_MS_MIN = 1_000;

/** One try. `null` when another claim holds the lock; a `StoreError` when the outcome is unknown. */
export function tryAcquire(core: Core, request: AcquireRequest): Promise<HeldClaim | null> {
  return acquire(core, request, true);
}

/** Waits until the claim is granted, for `waitMs` at most. */
export function acquire(core: Core, request: Omit<AcquireRequest, 'isDone'>): Promise<HeldClaim>;
/** The same, or one try. `null` when the try was refused, or when `isDone` has ended the wait. */
export function acquire(
  core: Core,
  request: AcquireRequest,
  isOneTry: boolean,
  traced?: Attempt,
): Promise<HeldClaim | null>;
/**
 * The only waiting loop.
 *
 * | the store                | what follows                                                        |
 * |--------------------------|---------------------------------------------------------------------|
 * | grants                   | a hold                                                              |
 * | refuses                  | sleep until a wake-up or `retryAfterMs`, then claim again           |
 * | pushes a grant           | a hold, without asking again; claim again when it came too late     |
 * | fails, outcome unknown   | claim again by the same id after a poll interval                    |
 * | fails with a definite no | rejects with that error, unless it is a `StoreError`: then as above |
 *
 * One try ends at the first refusal or failure. When the wait times out, is aborted or the Locks
 * closes, the claim is removed in the background if the store may have it. `traced`: of an attempt
 * that runs in the context of its trace already.
 */
export async function acquire(
  core: Core,
  request: AcquireRequest,
  isOneTry = false,
  traced?: Attempt,
): Promise<HeldClaim | null> {
  const attempt = traced ?? new Attempt(core, request, !isOneTry && request.settings.waitMs > 0);
  if (traced === undefined && attempt.trace !== null)
    return await inTrace(attempt.trace, () => acquire(core, request, isOneTry, attempt));
  const { wait } = attempt;
  try {
    for (;;) {
      try {
        const held = attempt.take(await attempt.claim());
        if (held !== null) return held;
      } catch (error) {
        const reason = attempt.onFailure(error);
        if (reason !== null) throw reason;
      }
      attempt.beginWait();
      if (
        isOneTry ||
        (request.isDone !== undefined && attempt.failure === null && (await wait.race(request.isDone())))
      ) {
        attempt.giveUp('held', null);
        return null;
      }
      const leftMs = attempt.leftMs();
      const failure = leftMs > 0 ? null : (attempt.failure ?? (await wait.race(attempt.timeout())));
      // A grant may also have come while the time-out was explained. For a mere wake-up it is too late.
      const pushed = failure === null ? await wait.sleep(Math.min(attempt.delayMs(), leftMs)) : wait.take();
      wait.throwIfStopped();
      const held = pushed && attempt.takePushed(pushed);
      if (held !== null) return held;
      if (failure !== null) throw failure;
    }
  } catch (error) {
    attempt.giveUp(wait.isStopped ? 'aborted' : refusalBy(error), error);
    throw error;
  } finally {
    attempt.end();
  }
}

/** `failed` is left for failures of the store: an alert tells from it that the store is out of reach. */
function refusalBy(error: unknown): Refusal {
  const code = codeOf(error);
  if (code === 'ACQUIRE_TIMEOUT') return 'timeout';
  if (code === 'CLOSED') return 'aborted';
  return code === 'QUEUE_FULL' || code === 'MODE_MISMATCH' ? 'held' : 'failed';
}

/** What the errors of waiters that time out together share, as they share the read. */
interface LockState {
  readonly holders: readonly ClaimView[];
  /** By the id of a waiting claim. */
  readonly positions: ReadonlyMap<string, number>;
}

const LOCK_STATES = new WeakMap<readonly StoredClaim[], LockState>();

/** Made once for each read: ten thousand waiters that each look through all claims take seconds. */
function lockStateIn(claims: readonly StoredClaim[]): LockState {
  let state = LOCK_STATES.get(claims);
  if (state === undefined) {
    const granted = claims.filter((claim) => claim.granted);
    const waiting = claims.filter((claim) => !claim.granted);
    state = {
      // One more than an error names: the claim of its waiter may be among them by now.
      holders: granted.slice(0, HOLDERS_MAX + 1).map(viewClaim),
      positions: new Map(waiting.map(({ id }, index) => [id, index + 1])),
    };
    LOCK_STATES.set(claims, state);
  }
  return state;
}

/** The claim of one caller, from the first request until it is held or abandoned. */
class Attempt implements Waiter {
  readonly #core: Core;
  readonly #request: AcquireRequest;
  readonly #ref: ClaimRef;
  readonly #begunMs: number;
  /** Whether a refused claim stays in the queue. */
  readonly #canWait: boolean;
  readonly wait: Wait;
  /** `null` when nothing observes the attempt. */
  trace: AcquireTrace | null = null;
  /** The last claim request: when it was sent, its answer, and how to abandon it. */
  #sent: Instant;
  #answer: Promise<ClaimOutcome> | null = null;
  #controller: AbortController | null = null;
  /** Whether the store may have the claim, so that it must be removed when the caller stops waiting. */
  #mayStand = false;
  /** The value of `mayStand` before the last request was sent. */
  #stoodBefore = false;
  /** Why the last request failed; `null` when it was answered. */
  failure: unknown = null;
  /** A request of unknown outcome may still reach the server. */
  #mayArriveLate = false;
  #retryAfterMs: number | null = null;
  /** How often the poll interval, not the store, decided how long to sleep. */
  #polls = 0;
  #isGivenUp = false;
  #held: HeldClaim | null = null;

  constructor(core: Core, request: AcquireRequest, canWait: boolean) {
    const { signal, waitMs } = request.settings;
    core.assertOpen();
    signal?.throwIfAborted();
    this.#core = core;
    this.#request = request;
    this.#ref = { name: request.name, id: request.id ?? core.ids.next() };
    this.#canWait = canWait;
    this.#sent = instant(core.clock);
    this.#begunMs = this.#sent.monotonicMs;
    this.wait = new Wait(core, signal);
    core.beginCall();
    if (request.isQuiet !== true)
      this.trace = beginTrace(core, this.#ref, request.mode, canWait ? waitMs : 0);
  }

  /** Once the claim is held, a wake-up means that the hold needs a renewal now. */
  wake(grant?: PushedGrant): void {
    if (this.#held === null) this.wait.wake(grant);
    else this.#core.renewals.renewNow(this.#held);
  }

  leftMs(): number {
    return this.#request.settings.waitMs - this.#elapsedMs(this.#request.startedMs);
  }

  #elapsedMs(sinceMs = this.#begunMs): number {
    return this.#core.clock.monotonicMs() - sinceMs;
  }

  beginWait(): void {
    if (!this.#canWait || this.wait.hasBegun) return;
    this.wait.begin();
    this.#core.emit('waiting', this.#ref, { waitMs: this.#request.settings.waitMs });
  }

  claim(): Promise<ClaimOutcome> {
    const { claimCommands, clock, record, store } = this.#core;
    const { mode, settings } = this.#request;
    this.#stoodBefore = this.#mayStand;
    this.#mayStand = true;
    this.wait.clear();
    // The first request is sent in the same step in which the attempt begins.
    if (this.#answer !== null) this.#sent = instant(clock);
    const { name, id } = this.#ref;
    const { ttlMs, note } = settings;
    // Written out: a spread here took a third of the time of an uncontended acquire (`bench core`).
    const request = { name, id, mode, ttlMs, wait: this.#canWait, note, fenceAbove: record.fenceSeen };
    if (this.wait.canStop) this.#controller = new AbortController();
    const command = claimCommands.begin<ClaimOutcome>(this.#limitMs(), this.#onLate, this.#controller);
    this.#answer = command.settle(sendSafely(() => store.claim(request, command.signal, this)));
    return this.wait.race(this.#answer);
  }

  #limitMs(): number {
    const { limitMs } = this.#core.claimCommands;
    const { isQuiet, settings } = this.#request;
    if (settings.waitMs === 0 || (!this.#canWait && isQuiet !== true)) return limitMs;
    return Math.min(Math.max(this.leftMs(), COMMAND_MS_MIN), limitMs);
  }

  /** Takes the store's answer. `null` when the claim was refused. */
  take(outcome: ClaimOutcome): HeldClaim | null {
    this.wait.throwIfStopped();
    this.failure = null;
    if (!outcome.granted) {
      this.#mayStand = this.#canWait;
      this.#retryAfterMs = outcome.retryAfterMs;
      return null;
    }
    if (this.#core.isClosed) throw new ClosedError();
    const held = this.#accept(outcome, this.#sent);
    // The next request, by the same id, shows what is left of the grant.
    if (held === null) throw unknownOutcome('The answer came too late');
    return held;
  }

  /** `null` when the grant is useless, so that the claim has to be sent again. */
  takePushed({ grant, at }: ArrivedGrant): HeldClaim | null {
    // A pushed grant may be short until it is renewed, and a detached claim never is.
    return this.#request.detached === true ? null : this.#accept(grant, at);
  }

  /** The claim request failed. Returns why the attempt ends, or `null` when it can be repeated. */
  onFailure(error: unknown): unknown {
    if (this.wait.isStopped || this.#core.isClosed) this.#abandon(error);
    else if (!isUnknown(error)) this.#mayStand = this.#stoodBefore;
    this.#mayArriveLate ||= isUnknown(error);
    // The reason of an abort comes before a failure in the same tick.
    this.wait.throwIfStopped();
    if (!isStoreError(error)) return error;
    if (this.#core.isClosed) return new ClosedError();
    if (!this.#canWait) return error;
    this.failure = error;
    // What the store said before it failed is out of date.
    this.#retryAfterMs = null;
    return null;
  }

  /** A hold of a grant that is valid from `sent` on. `null` when it came too late to be trusted. */
  #accept({ fence, validForMs }: PushedGrant, sent: Instant): HeldClaim | null {
    const core = this.#core;
    const { mode, settings, detached } = this.#request;
    if (fence > core.record.fenceSeen) core.record.fenceSeen = fence;
    const nowMs = core.clock.monotonicMs();
    const deadline = core.renewals.deadline(sent, validForMs);
    if (deadline.remainingMs() <= 0 && detached !== true) return null;
    this.#mayStand = false;
    const held = new HeldClaim(core, this.#ref, settings, fence, deadline);
    if (detached === true) held.detach();
    else {
      // An earlier request of unknown outcome may still arrive and set the lease to `ttlMs` again.
      if (this.#mayArriveLate) deadline.limitTo(settings.ttlMs);
      held.mayArriveLate = this.#mayArriveLate;
      core.renewals.add(held);
      this.#held = held;
    }
    // An attempt whose refusal is not final is traced only when it is granted.
    if (this.#request.isQuiet === true) {
      this.trace = beginTrace(core, this.#ref, mode, 0);
      if (this.trace !== null) inTrace(this.trace, () => {});
    }
    const waitedMs = nowMs - this.#begunMs;
    if (this.trace !== null) Object.assign(this.trace, { outcome: 'acquired', fence, waitedMs });
    if (core.events.isHeard('acquired'))
      core.emit('acquired', this.#ref, { mode, fence, waitedMs, validForMs });
    return held;
  }

  /** How long to sleep unless a wake-up comes: what the store said, bounded by `pollMs` if that is set. */
  delayMs(): number {
    const { pollMs, pollBound } = this.#request.settings;
    const storeMs = Math.max(this.#retryAfterMs ?? pollMs.max, 1);
    if (this.#retryAfterMs !== null && !pollBound) return storeMs;
    return Math.min(storeMs, backoff(this.#core.clock, this.#polls++, pollMs));
  }

  /** The error for a wait that timed out. It names the holders if the store answers soon. */
  async timeout(): Promise<AcquireTimeoutError> {
    const core = this.#core;
    const { name, id } = this.#ref;
    const waitedMs = this.#elapsedMs(this.#request.startedMs);
    try {
      const state = lockStateIn(await core.read(name, DEFAULTS.explainMs));
      const holders = state.holders.filter((holder) => holder.id !== id).slice(0, HOLDERS_MAX);
      const holderId = holders[0]?.id ?? '';
      const isOwn = core.renewals.holds.some(({ ref }) => ref.id === holderId);
      const self = !isOwn ? 'no' : core.isCallerInside(holderId) ? 'caller' : 'process';
      return new AcquireTimeoutError(name, waitedMs, holders, state.positions.get(id) ?? null, self);
    } catch {
      return new AcquireTimeoutError(name, waitedMs);
    }
  }

  /** The attempt ends without a hold: removes what the store may have of the claim. */
  giveUp(why: Refusal, error: unknown): void {
    this.#isGivenUp = true;
    if (this.#mayStand) this.#cleanUp(this.#mayArriveLate);
    if (this.#request.isQuiet === true) return;
    const waitedMs = this.#elapsedMs();
    if (this.trace !== null)
      Object.assign(this.trace, { outcome: why, waitedMs }, error !== null && { error });
    this.#core.emit('refused', this.#ref, { waitedMs, why, error });
  }

  end(): void {
    if (this.trace !== null) endTrace(this.#core, this.trace);
    this.wait.end();
    this.#core.endCall();
  }

  /**
   * The caller stopped waiting while a request was pending. The claim is removed only after the
   * answer to that request: a release that overtook it would leave an orphan. A store that has not
   * sent the request yet drops it and says so, and then nothing has to be removed.
   */
  #abandon(reason: unknown): void {
    const stoodBefore = this.#stoodBefore;
    this.#mayStand = false;
    this.#controller?.abort(reason);
    const afterAnswer = this.#answer?.then(
      () => this.#cleanUp(this.#mayArriveLate),
      (error: unknown) => {
        if (isUnknown(error) || stoodBefore) this.#cleanUp(isUnknown(error) || this.#mayArriveLate);
      },
    );
    if (afterAnswer !== undefined) this.#core.background(afterAnswer);
  }

  /**
   * An answer after the time limit. Once the caller has stopped waiting, or holds by a later request
   * and releases that, nothing else would remove the grant of this request.
   */
  readonly #onLate = (): void => {
    if (this.#isGivenUp) this.#cleanUp(false);
    else this.#held?.onLateClaim();
  };

  #cleanUp(mayArriveLate: boolean): void {
    this.#core.cleanUp.release(this.#ref, this.#request.settings.ttlMs, mayArriveLate);
  }
}
