import { FOREVER_MS, type Timer } from '../clock.ts';
import type { Core } from '../core.ts';
import { DEFAULTS } from '../options.ts';
import type { RenewOutcome } from '../store/store.ts';
import { type Instant, instant } from '../store/validity.ts';
import { isUnknown } from '../util/error-code.ts';
import { type Indexed, UnorderedSet } from '../util/unordered-set.ts';
import { Deadline, type TtlCommand } from './deadline.ts';
import type { HeldClaim } from './held-claim.ts';
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

/**
 * Keeps the holds of one Locks alive: `Renewals` in the event loop of the caller, `ThreadRenewals` of
 * `src/thread/` in a thread of its own.
 */
export interface Renewer {
  /** Everything that is held now. */
  readonly holds: readonly HeldClaim[];
  readonly isEmpty: boolean;
  readonly stalls: StallDetector;
  /** The deadline of a hold whose grant, asked for at `sent`, is valid for `validForMs`. */
  deadline(sent: Instant, validForMs: number): Deadline;
  /** Keeps the hold alive from now on. */
  add(held: HeldClaim): void;
  remove(held: HeldClaim): void;
  /** The store says that something has happened to the claim. */
  renewNow(held: HeldClaim): void;
  /** The store says that the claim may have been evicted: asks it whether the claim is still held. */
  check(held: HeldClaim): void;
  /** Renews now, at the user's request. Rejects when the store did not confirm it. */
  extend(held: HeldClaim, ttlMs: number): Promise<void>;
  /** The pending renewal; `null` when there is none. */
  inFlight(held: HeldClaim): Promise<unknown> | null;
  /** Cancels every timer. */
  close(): void;
}

/** When something has to be done about one hold, and whether a renewal of it is pending. */
export interface Renewal extends Indexed {
  readonly held: HeldClaim;
  /** The time of the next renewal or retry, and the interval that led to it. */
  dueAtMs: number;
  everyMs: number;
  /** When to check the deadline; see `#watchDeadline`. */
  deadlineAtMs: number;
  inFlight: Promise<void> | null;
  /** The store is asked once more when the pending renewal has ended. */
  isCheckDue: boolean;
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
  readonly stalls: StallDetector;

  constructor(core: Core) {
    this.#core = core;
    this.stalls = new StallDetector(core, { onClockJump: () => this.#afterClockJump() });
  }

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

  add(held: HeldClaim): void {
    const times = { dueAtMs: FOREVER_MS, everyMs: 0, deadlineAtMs: FOREVER_MS };
    const renewal: Renewal = { index: 0, held, ...times, inFlight: null, isCheckDue: false };
    held.renewal = renewal;
    this.#renewals.add(renewal);
    if (held.renew) this.stalls.start();
    this.#schedule(renewal);
  }

  remove({ renewal }: HeldClaim): void {
    this.#renewals.delete(renewal);
  }

  renewNow({ renewal }: HeldClaim): void {
    this.#renewDue(renewal);
  }

  /** A hold with `renew: false` is renewed only for its remaining time: the check must not prolong it. */
  async check(held: HeldClaim): Promise<void> {
    const { renewal, deadline } = held;
    if (renewal.isCheckDue) return;
    renewal.isCheckDue = true;
    // The pending renewal may have been answered before the eviction.
    while (renewal.inFlight !== null) await renewal.inFlight;
    renewal.isCheckDue = false;
    this.#renewDue(renewal, held.renew ? held.ttlMs : Math.max(Math.ceil(deadline.grantedMs()), 1));
  }

  async extend(held: HeldClaim, ttlMs: number): Promise<void> {
    const { renewal } = held;
    // The check and the send are in one step: of several calls that wait here, exactly one sends.
    while (renewal.inFlight !== null) await renewal.inFlight;
    held.assertHeld();
    const failure = await this.#renew(renewal, ttlMs);
    if (failure !== null) throw failure;
    held.onExtended(ttlMs);
    held.assertHeld();
  }

  /** A hold has one pending renewal at a time, so that answers come in the order of sending. */
  inFlight({ renewal }: HeldClaim): Promise<void> | null {
    return renewal.inFlight;
  }

  close(): void {
    this.#timer?.cancel();
    this.stalls.stop();
  }

  #schedule(renewal: Renewal): void {
    const { held } = renewal;
    const { sent, ttlMs } = held.deadline.confirmed;
    renewal.deadlineAtMs = FOREVER_MS;
    if (held.renew) {
      // One failed renewal must leave time for another, however long an interval the user asked for.
      const mostMs = held.deadline.remainingMs() * RENEW_SHARE_MAX;
      renewal.everyMs = Math.min(held.settings.renewEveryMs ?? ttlMs * DEFAULTS.renewShare, mostMs);
      // The interval counts from the send, so a slow answer does not delay the next renewal.
      const soonestMs = this.#core.clock.monotonicMs() + Math.max(renewal.everyMs / 4, 1);
      renewal.dueAtMs = Math.max(sent.monotonicMs + renewal.everyMs, soonestMs);
      this.#wakeAt(renewal.dueAtMs);
    }
    if (!held.renew || held.capMs !== FOREVER_MS) this.#watchDeadline(renewal);
  }

  /**
   * Only while the next renewal may fail or never come: otherwise that renewal itself notices that
   * the deadline has passed.
   */
  #watchDeadline(renewal: Renewal): void {
    const { held } = renewal;
    renewal.deadlineAtMs = FOREVER_MS;
    if (!held.checkDeadline()) return;
    // At least 1 ms: a fraction of it would fire again and again at the same instant.
    renewal.deadlineAtMs = this.#core.clock.monotonicMs() + Math.max(held.remainingMs, 1);
    this.#wakeAt(renewal.deadlineAtMs);
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
    this.#timerDueMs = FOREVER_MS;
    for (const renewal of [...this.#renewals.all]) {
      if (renewal.dueAtMs - nowMs <= renewal.everyMs * SLACK_SHARE) {
        renewal.dueAtMs = FOREVER_MS;
        this.#renewDue(renewal);
      } else if (renewal.deadlineAtMs <= nowMs) this.#watchDeadline(renewal);
      this.#wakeAt(Math.min(renewal.dueAtMs, renewal.deadlineAtMs));
    }
  }

  #renewDue(renewal: Renewal, ttlMs = renewal.held.ttlMs): void {
    const { held } = renewal;
    if (renewal.inFlight !== null || !held.checkDeadline()) return;
    void this.#renew(renewal, ttlMs);
  }

  /** One renewal. Resolves to `null`, or to the failure; the next try is scheduled by then. */
  async #renew(renewal: Renewal, ttlMs: number): Promise<unknown> {
    const { held } = renewal;
    const { clock, commands, store } = this.#core;
    let end = (): void => {};
    // Set before the store is called: a store may wake the holder inside that call.
    renewal.inFlight = new Promise<void>((resolve) => {
      end = resolve;
    });
    const sent = instant(clock);
    // The request may shorten the lease, and its answer may be lost: the deadline moves when it is sent.
    const command = held.deadline.onSent(sent, ttlMs);
    this.#watchDeadline(renewal);
    // Several tries must fit into the time that is left. A later answer still counts.
    const limitMs = Math.min(commands.limitMs, Math.max(held.remainingMs / 3, RETRY_MIN_MS));
    const send = (signal: AbortSignal): Promise<RenewOutcome> => store.renew(held.ref, { ttlMs }, signal);
    const onLate = (outcome: RenewOutcome | null): void => {
      if (outcome !== null) this.#onAnswer(renewal, command, outcome);
      held.onLateRenewal();
    };
    try {
      const outcome = await commands.run(send, limitMs, onLate);
      this.#onAnswer(renewal, command, outcome);
      return outcome.held || !held.isLost ? null : held.reason;
    } catch (error) {
      if (!isUnknown(error)) held.deadline.onRefused(command);
      this.#onFailure(renewal, sent, error);
      return error;
    } finally {
      renewal.inFlight = null;
      end();
    }
  }

  #onAnswer(renewal: Renewal, command: TtlCommand, outcome: RenewOutcome): void {
    const { held } = renewal;
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
    this.#schedule(renewal);
  }

  #onFailure(renewal: Renewal, sent: Instant, error: unknown): void {
    const { held } = renewal;
    if (!held.checkDeadline()) return;
    const { remainingMs } = held;
    const { clock } = this.#core;
    const tookMs = clock.monotonicMs() - sent.monotonicMs;
    this.#core.emit('renewFailed', held.ref, { error, tookMs, remainingMs });
    if (!held.renew) return;
    renewal.everyMs = Math.max(remainingMs * RETRY_SHARE * (0.5 + clock.random() / 2), RETRY_MIN_MS);
    renewal.dueAtMs = clock.monotonicMs() + renewal.everyMs;
    this.#wakeAt(renewal.dueAtMs);
  }

  /** The host was suspended, or the wall clock was set: all timers fire too late by that much. */
  #afterClockJump(): void {
    for (const renewal of [...this.#renewals.all]) {
      if (renewal.held.renew) this.#renewDue(renewal);
      else this.#watchDeadline(renewal);
    }
  }
}
