import { FOREVER_MS } from '../clock.ts';
import type { Core } from '../core.ts';
import { DEFAULTS } from '../options.ts';
import type { RenewOutcome } from '../store/store.ts';
import { type Instant, instant } from '../store/validity.ts';
import { EarliestTimer } from '../util/earliest-timer.ts';
import { isUnknown } from '../util/error-code.ts';
import { UnorderedSet } from '../util/unordered-set.ts';
import { Deadline, type TtlCommand } from './deadline.ts';
import type { HeldClaim } from './held-claim.ts';
import { StallDetector } from './stall-detector.ts';

/** Renewals that are due within this share of their interval are sent together. */
const SLACK_SHARE = 1 / 8;
/** The delay of a retry, as a share of the time left: the closer the deadline, the more retries. */
const RETRY_SHARE = 1 / 8;
const RETRY_MIN_MS = 20;
/** A renewal comes no later than after this share of the time that the store has granted. */
const RENEW_SHARE_MAX = 3 / 4;

/**
 * Keeps the holds of one Locks alive: `Renewals` in the event loop of the caller, `ThreadRenewals` of
 * `src/thread/` in a thread of its own.
 */
export interface Renewer {
  readonly holds: readonly HeldClaim[];
  readonly stalls: StallDetector;
  /** The deadline of a hold whose grant, asked for at `sent`, is valid for `validForMs`. */
  deadline(sent: Instant, validForMs: number): Deadline;
  add(held: HeldClaim): void;
  remove(held: HeldClaim): void;
  /** The store has woken the holder: see `Waiter`. */
  renewNow(held: HeldClaim): void;
  /** The store says that the claim may have been evicted: asks it whether the claim is still held. */
  check(held: HeldClaim): void;
  /** Renews now, at the user's request. Rejects when the store did not confirm it. */
  extend(held: HeldClaim, ttlMs: number): Promise<void>;
  /** The pending renewal; `null` when there is none. */
  inFlight(held: HeldClaim): Promise<unknown> | null;
  close(): void;
}

/**
 * The holds of one Locks, and the only loop that renews them. One failed renewal is an event, not a
 * loss: it is retried until the deadline. Only the deadline, or a store that answers
 * `{ held: false }`, ends a hold. Nothing here rejects.
 */
export class Renewals implements Renewer {
  readonly #core: Core;
  readonly #holds = new UnorderedSet<HeldClaim>();
  /** One timer for all holds: ten thousand of them need no more. */
  readonly #timer: EarliestTimer;
  readonly stalls: StallDetector;

  constructor(core: Core) {
    this.#core = core;
    this.#timer = new EarliestTimer(core.clock, () => this.#onTimer());
    this.stalls = new StallDetector(core, () => this.#afterClockJump());
  }

  get holds(): readonly HeldClaim[] {
    return [...this.#holds.all];
  }

  deadline(sent: Instant, validForMs: number): Deadline {
    const { clock, store } = this.#core;
    return new Deadline(clock, sent, validForMs, store.traits.lifetime === 'lease');
  }

  add(held: HeldClaim): void {
    this.#holds.add(held);
    if (held.renew) this.stalls.start();
    this.#schedule(held);
  }

  remove(held: HeldClaim): void {
    this.#holds.delete(held);
  }

  renewNow(held: HeldClaim, ttlMs = held.ttlMs): void {
    if (!held.checkDeadline() || held.renewing !== null) return;
    void this.#renew(held, ttlMs);
  }

  /** A hold with `renew: false` is renewed only for its remaining time: the check must not prolong it. */
  async check(held: HeldClaim): Promise<void> {
    if (held.isCheckDue) return;
    held.isCheckDue = true;
    // The pending renewal may have been answered before the eviction.
    while (held.renewing !== null) await held.renewing;
    held.isCheckDue = false;
    this.renewNow(held, held.renew ? held.ttlMs : Math.max(Math.ceil(held.deadline.grantedMs()), 1));
  }

  async extend(held: HeldClaim, ttlMs: number): Promise<void> {
    held.assertHeld();
    // The check and the send are in one step: of several calls that wait here, exactly one sends.
    while (held.renewing !== null) {
      await held.renewing;
      held.assertHeld();
    }
    const failure = await this.#renew(held, ttlMs, true);
    if (failure !== null) throw failure;
    held.assertHeld();
  }

  inFlight(held: HeldClaim): Promise<void> | null {
    return held.renewing;
  }

  close(): void {
    this.#timer.cancel();
    this.stalls.stop();
  }

  #schedule(held: HeldClaim): void {
    const { sent, ttlMs } = held.deadline.confirmed;
    held.deadlineAtMs = FOREVER_MS;
    if (held.renew) {
      // One failed renewal must leave time for another, however long an interval the user asked for.
      const mostMs = held.deadline.remainingMs() * RENEW_SHARE_MAX;
      held.everyMs = Math.min(held.settings.renewEveryMs ?? ttlMs * DEFAULTS.renewShare, mostMs);
      // The interval counts from the send, so a slow answer does not delay the next renewal.
      const soonestMs = this.#core.clock.monotonicMs() + Math.max(held.everyMs / 4, 1);
      held.dueAtMs = Math.max(sent.monotonicMs + held.everyMs, soonestMs);
      this.#timer.setBy(held.dueAtMs);
    }
    if (!held.renew || held.capMs !== FOREVER_MS) this.#wakeAtDeadline(held);
  }

  /** Called only while a renewal is pending or none will come: else the next one notices the deadline. */
  #watchDeadline(held: HeldClaim): void {
    held.deadlineAtMs = FOREVER_MS;
    if (held.checkDeadline()) this.#wakeAtDeadline(held);
  }

  /**
   * At least 1 ms later: a fraction of it would fire again and again at the same instant, and a hold
   * whose deadline has passed already is acquired before it is lost.
   */
  #wakeAtDeadline(held: HeldClaim): void {
    held.deadlineAtMs = this.#core.clock.monotonicMs() + Math.max(held.remainingMs, 1);
    this.#timer.setBy(held.deadlineAtMs);
  }

  #onTimer(): void {
    const nowMs = this.#core.clock.monotonicMs();
    for (const held of this.holds) {
      if (held.dueAtMs - nowMs <= held.everyMs * SLACK_SHARE) {
        held.dueAtMs = FOREVER_MS;
        this.renewNow(held);
      } else if (held.deadlineAtMs <= nowMs) this.#watchDeadline(held);
      this.#timer.setBy(Math.min(held.dueAtMs, held.deadlineAtMs));
    }
  }

  /** One renewal. Resolves to `null`, or to the failure; the next try is scheduled by then. */
  async #renew(held: HeldClaim, ttlMs: number, isExtension = false): Promise<unknown> {
    const { clock, commands, store } = this.#core;
    let end = (): void => {};
    // Set before the store is called: a store may wake the holder inside that call.
    held.renewing = new Promise<void>((resolve) => {
      end = resolve;
    });
    const sent = instant(clock);
    // The request may shorten the lease, and its answer may be lost: the deadline moves when it is sent.
    const command = held.deadline.onSent(sent, ttlMs);
    this.#watchDeadline(held);
    // Several tries must fit into the time that is left. A later answer still counts.
    const limitMs = Math.min(commands.limitMs, Math.max(held.remainingMs / 3, RETRY_MIN_MS));
    const send = (signal: AbortSignal): Promise<RenewOutcome> => store.renew(held.ref, { ttlMs }, signal);
    const onLate = (outcome: RenewOutcome | null): void => {
      if (outcome !== null) this.#onAnswer(held, command, outcome);
      held.onLateRenewal();
    };
    try {
      const outcome = await commands.run(send, limitMs, onLate);
      // Before the end is watched anew, and before a check that waits for this renewal uses the TTL.
      if (isExtension && outcome.held) held.onExtended(ttlMs);
      this.#onAnswer(held, command, outcome);
      return outcome.held || !held.isLost ? null : held.reason;
    } catch (error) {
      if (!isUnknown(error)) held.deadline.onRefused(command);
      this.#onFailure(held, sent, error);
      return error;
    } finally {
      held.renewing = null;
      end();
    }
  }

  #onAnswer(held: HeldClaim, command: TtlCommand, outcome: RenewOutcome): void {
    const { clock, store } = this.#core;
    if (!held.isHeld) return;
    if (!outcome.held) {
      held.lose(outcome.how ?? (store.traits.lifetime === 'session' ? 'session' : 'taken'));
      return;
    }
    const { validForMs } = outcome;
    if (!held.deadline.confirm(command, validForMs) || !held.checkDeadline()) return;
    const tookMs = clock.monotonicMs() - command.sent.monotonicMs;
    this.#core.emit('renewed', held.ref, { tookMs, validForMs });
    this.#schedule(held);
  }

  #onFailure(held: HeldClaim, sent: Instant, error: unknown): void {
    if (!held.checkDeadline()) return;
    const { remainingMs } = held;
    const { clock } = this.#core;
    const tookMs = clock.monotonicMs() - sent.monotonicMs;
    this.#core.emit('renewFailed', held.ref, { error, tookMs, remainingMs });
    if (!held.renew) return;
    held.everyMs = Math.max(remainingMs * RETRY_SHARE * (0.5 + clock.random() / 2), RETRY_MIN_MS);
    held.dueAtMs = clock.monotonicMs() + held.everyMs;
    this.#timer.setBy(held.dueAtMs);
  }

  /** The host was suspended, or the wall clock was set forward: deadlines come before their timers. */
  #afterClockJump(): void {
    for (const held of this.holds) {
      if (held.renew) this.renewNow(held);
      else this.#watchDeadline(held);
    }
  }
}
