import { type Clock, FOREVER_MS, type Timer } from '../clock.ts';
import type { Core } from '../core.ts';
import { DEFAULTS } from '../options.ts';
import type { RenewOutcome } from '../store/store.ts';
import { type Instant, instant } from '../store/validity.ts';
import { isUnknown } from '../util/error-code.ts';
import { UnorderedSet } from '../util/unordered-set.ts';
import { Deadline } from './deadline.ts';
import type { HeldClaim } from './held-claim.ts';
import type { Renewer } from './renewer.ts';
import { StallDetector } from './stall-detector.ts';

/** Renewals that are due within this share of their interval are sent together. */
const SLACK_SHARE = 1 / 8;
/**
 * The delay of a retry, as a share of the time left: retries become more frequent towards the
 * deadline.
 */
const RETRY_SHARE = 1 / 8;
const RETRY_MIN_MS = 20;
/** A renewal comes no later than after this share of the time that the store has granted. */
const RENEW_SHARE_MAX = 3 / 4;

/** When one hold is renewed next, and whether a renewal is pending. */
export class Renewal {
  index = 0;
  readonly held: HeldClaim;
  everyMs = 0;
  dueAtMs = FOREVER_MS;
  deadlineTimer: Timer | null = null;
  retryTimer: Timer | null = null;
  inFlight: Promise<void> | null = null;
  /** The store is asked once more when the pending renewal has ended. */
  isCheckDue = false;

  constructor(held: HeldClaim) {
    this.held = held;
  }

  /** `sent`: when the request was sent that the store has confirmed for `validForMs`. */
  schedule(clock: Clock, sent: Instant, validForMs: number): void {
    const { held } = this;
    // One failed renewal must leave time for another, however long an interval the user asked for.
    const mostMs = held.deadline.remainingMs() * RENEW_SHARE_MAX;
    this.everyMs = Math.min(held.renewEveryMs ?? validForMs * DEFAULTS.renewShare, mostMs);
    // The interval counts from the send, so a slow answer does not delay the next renewal.
    const soonestMs = clock.monotonicMs() + Math.max(this.everyMs / 4, 1);
    this.dueAtMs = Math.max(sent.monotonicMs + this.everyMs, soonestMs);
  }

  unschedule(): void {
    this.dueAtMs = FOREVER_MS;
    this.deadlineTimer?.cancel();
    this.retryTimer?.cancel();
  }
}

/**
 * The holds of one Locks, and the only loop that renews them. One failed renewal is an event, not a
 * loss: it is retried until the deadline. Only the deadline, or a store that answers
 * `{ held: false }`, ends a hold. Nothing here rejects.
 */
export class Renewals implements Renewer {
  readonly #core: Core;
  readonly #renewals = new UnorderedSet<Renewal>();
  /** One timer for all holds: ten thousand of them need no more. */
  #timer: Timer | null = null;
  #timerDueMs = FOREVER_MS;
  readonly #stalls: StallDetector;

  constructor(core: Core) {
    this.#core = core;
    this.#stalls = new StallDetector(core, this, { onClockJump: () => this.#afterClockJump() });
  }

  /** Everything that is held now. */
  get holds(): readonly HeldClaim[] {
    return this.#renewals.all.map(({ held }) => held);
  }

  get isEmpty(): boolean {
    return this.#renewals.all.length === 0;
  }

  deadline(sent: Instant, validForMs: number): Deadline {
    const { clock, store } = this.#core;
    return new Deadline(clock, sent, validForMs, store.traits.lifetime === 'lease');
  }

  /** Adds a hold whose grant, requested at `sent`, is valid for `validForMs`. */
  add(held: HeldClaim, sent: Instant, validForMs: number): void {
    const renewal = new Renewal(held);
    held.renewal = renewal;
    this.#renewals.add(renewal);
    if (held.renew) this.#stalls.start();
    this.#schedule(renewal, sent, validForMs);
  }

  remove({ renewal }: HeldClaim): void {
    if (renewal === null) return;
    renewal.unschedule();
    this.#renewals.delete(renewal);
  }

  /** The store says that something has happened to the claim. */
  renewNow({ renewal }: HeldClaim): void {
    if (renewal !== null) this.#renewDue(renewal);
  }

  /**
   * Asks the store whether the claim is still held. A hold with `renew: false` is renewed only for
   * its remaining time: the check must not prolong it.
   */
  check(held: HeldClaim): void {
    const { renewal } = held;
    if (renewal === null || renewal.isCheckDue) return;
    if (renewal.inFlight === null) {
      this.#renewDue(renewal, held.renew ? held.ttlMs : Math.max(Math.ceil(held.deadline.grantedMs()), 1));
      return;
    }
    // The pending renewal may have been answered before the eviction.
    renewal.isCheckDue = true;
    void renewal.inFlight.then(() => {
      renewal.isCheckDue = false;
      this.check(held);
    });
  }

  /** Renews now, at the user's request. Rejects when the store did not confirm it. */
  async extend(held: HeldClaim, ttlMs: number): Promise<void> {
    const { renewal } = held;
    // The check and the send are in one step: of several calls that wait here, exactly one sends.
    while (renewal !== null && renewal.inFlight !== null) await renewal.inFlight;
    held.assertHeld();
    const failure = renewal === null ? null : await this.#renew(renewal, ttlMs);
    if (failure !== null) throw failure;
    held.onExtended(ttlMs);
    held.assertHeld();
  }

  /** The pending renewal. A hold has one at a time, so that answers come in the order of sending. */
  inFlight(held: HeldClaim): Promise<void> | null {
    return held.renewal?.inFlight ?? null;
  }

  /** Cancels every timer of this Locks. */
  close(): void {
    this.#timer?.cancel();
    this.#stalls.stop();
  }

  #schedule(renewal: Renewal, sent: Instant, validForMs: number): void {
    const { held } = renewal;
    if (held.renew) {
      renewal.schedule(this.#core.clock, sent, validForMs);
      this.#wakeAt(renewal.dueAtMs);
    }
    if (!held.renew || held.capMs !== FOREVER_MS) this.#watchDeadline(renewal);
  }

  /** The timer may be left over from a hold that is gone: then it only fires too early. */
  #wakeAt(dueAtMs: number): void {
    if (dueAtMs >= this.#timerDueMs) return;
    this.#timerDueMs = dueAtMs;
    this.#timer?.cancel();
    const { clock } = this.#core;
    this.#timer = clock.startTimer(dueAtMs - clock.monotonicMs(), () => this.#onTimer());
  }

  #onTimer(): void {
    const nowMs = this.#core.clock.monotonicMs();
    const due: Renewal[] = [];
    let nextMs = FOREVER_MS;
    for (const renewal of this.#renewals.all) {
      const isDue = renewal.dueAtMs - nowMs <= renewal.everyMs * SLACK_SHARE;
      if (isDue) due.push(renewal);
      else nextMs = Math.min(nextMs, renewal.dueAtMs);
    }
    this.#timerDueMs = FOREVER_MS;
    this.#wakeAt(nextMs);
    for (const renewal of due) {
      renewal.dueAtMs = FOREVER_MS;
      this.#renewDue(renewal);
    }
  }

  #renewDue(renewal: Renewal, ttlMs = renewal.held.ttlMs): void {
    const { held } = renewal;
    if (renewal.inFlight !== null || !held.checkDeadline()) return;
    void this.#renew(renewal, ttlMs);
  }

  /** One renewal. Resolves to `null`, or to the failure; the next try is scheduled by then. */
  async #renew(renewal: Renewal, ttlMs: number): Promise<unknown> {
    let end = (): void => {};
    // Set before the store is called: a store may wake the holder inside that call.
    renewal.inFlight = new Promise<void>((resolve) => {
      end = resolve;
    });
    try {
      return await this.#send(renewal, ttlMs);
    } finally {
      renewal.inFlight = null;
      end();
    }
  }

  async #send(renewal: Renewal, ttlMs: number): Promise<unknown> {
    const { held } = renewal;
    const { clock, commands, store } = this.#core;
    const sent = instant(clock);
    // The request may shorten the lease, and its answer may be lost: the deadline moves when it is sent.
    const command = held.deadline.onSent(sent, ttlMs);
    this.#watchDeadline(renewal);
    // Several tries must fit into the time that is left. A later answer still counts.
    const limitMs = Math.min(commands.limitMs, Math.max(held.remainingMs / 3, RETRY_MIN_MS));
    const onAnswer = (outcome: RenewOutcome): void => {
      held.deadline.onAnswered(command);
      this.#onAnswer(renewal, sent, outcome);
    };
    const onLate = (outcome: RenewOutcome | null): void => {
      if (outcome !== null) onAnswer(outcome);
      held.onLateRenewal();
    };
    try {
      const outcome = await commands.run(
        (signal) => store.renew(held.ref, { ttlMs }, signal),
        limitMs,
        onLate,
      );
      onAnswer(outcome);
      return outcome.held || !held.isLost ? null : held.reason;
    } catch (error) {
      if (!isUnknown(error)) held.deadline.onAnswered(command);
      this.#onFailure(renewal, sent, error);
      return error;
    }
  }

  #onAnswer(renewal: Renewal, sent: Instant, outcome: RenewOutcome): void {
    const { held } = renewal;
    if (!held.isHeld) return;
    if (!outcome.held) {
      const isSession = this.#core.store.traits.lifetime === 'session';
      held.lose(outcome.how ?? (isSession ? 'session' : 'taken'));
      return;
    }
    const { validForMs } = outcome;
    if (!held.confirm(sent, validForMs)) return;
    const tookMs = this.#core.clock.monotonicMs() - sent.monotonicMs;
    this.#core.emit('renewed', held.ref, { tookMs, validForMs });
    renewal.unschedule();
    this.#schedule(renewal, sent, validForMs);
  }

  #onFailure(renewal: Renewal, sent: Instant, error: unknown): void {
    const { held } = renewal;
    if (!held.checkDeadline()) return;
    const { remainingMs } = held;
    const { clock } = this.#core;
    const tookMs = clock.monotonicMs() - sent.monotonicMs;
    this.#core.emit('renewFailed', held.ref, { error, tookMs, remainingMs });
    if (!held.renew) return;
    const delayMs = Math.max(remainingMs * RETRY_SHARE * (0.5 + clock.random() / 2), RETRY_MIN_MS);
    renewal.retryTimer?.cancel();
    renewal.retryTimer = clock.startTimer(delayMs, () => this.#renewDue(renewal));
  }

  /**
   * Only while the next renewal may fail or never come: otherwise that renewal itself notices that
   * the deadline has passed.
   */
  #watchDeadline(renewal: Renewal): void {
    const { held } = renewal;
    renewal.deadlineTimer?.cancel();
    if (!held.checkDeadline()) return;
    // At least 1 ms: a fraction of it would fire again and again at the same instant.
    const delayMs = Math.max(held.remainingMs, 1);
    renewal.deadlineTimer = this.#core.clock.startTimer(delayMs, () => this.#watchDeadline(renewal));
  }

  blockedMs(held: HeldClaim): number {
    return this.#stalls.blockedMs(held);
  }

  /** The host was suspended, or the wall clock was set: all timers fire too late by that much. */
  #afterClockJump(): void {
    for (const renewal of [...this.#renewals.all]) {
      if (renewal.held.renew) this.#renewDue(renewal);
      else this.#watchDeadline(renewal);
    }
  }
}
