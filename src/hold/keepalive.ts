import { FOREVER_MS, type Timer } from '../clock.ts';
import type { Core } from '../core.ts';
import { DEFAULTS } from '../options.ts';
import type { RenewOutcome } from '../store/store.ts';
import { isUnknown, sendSafely } from './command.ts';
import type { Grant } from './grant.ts';
import { type Instant, instant } from './validity.ts';
import { disposeQuietly } from './wait.ts';

/** How often the two clocks are compared while anything is held: a host that slept is noticed this soon after it wakes. */
const JUMP_CHECK_MS = 1_000;
const JUMP_MS = 100;
/** Renewals that are due within this share of their interval travel together. */
const SLACK_SHARE = 1 / 8;
/** A failed renewal is tried again after this share of the time that is left, so the tries come closer as the deadline does. */
const RETRY_SHARE = 1 / 8;
const RETRY_MIN_MS = 20;
/** A renewal comes no later than this share of the time that the store has left it. */
const RENEW_SHARE_MAX = 3 / 4;

/**
 * The only renewal loop. One failed renewal is an event and not a loss: it is tried again until the deadline, and only the deadline or the store's
 * own word ends a hold. Nothing here rejects.
 */
export class Keepalive {
  readonly #core: Core;
  #timer: Timer | null = null;
  #wakesAtMs = FOREVER_MS;
  #jumpTimer: Timer | null = null;
  #clockGapMs = 0;

  constructor(core: Core) {
    this.#core = core;
  }

  /** The store has confirmed it in answer to what was sent then; so much is left of it. */
  start(grant: Grant, sentMs: number, validForMs: number, remainingMs: number): void {
    this.#watchClocks();
    if (this.#core.store.traits.lifetime === 'session') this.#watchSession(grant);
    if (grant.renew) this.#renewLater(grant, sentMs, validForMs, remainingMs);
    if (!grant.renew || grant.capMs !== FOREVER_MS) this.#watchDeadline(grant);
  }

  stop(grant: Grant): void {
    this.#unschedule(grant);
    disposeQuietly(grant.sessionWatch);
    grant.sessionWatch = null;
  }

  #unschedule(grant: Grant): void {
    grant.dueAtMs = FOREVER_MS;
    grant.timer?.cancel();
    grant.retry?.cancel();
  }

  /** Ends every timer of this Locks. */
  close(): void {
    this.#timer?.cancel();
    this.#jumpTimer?.cancel();
  }

  /** Renews now, for the user who asked. Rejects when the store did not confirm it. */
  async extend(grant: Grant, ttlMs: number): Promise<void> {
    // One command at a time for each hold, so that the order of sending is the order of the answers.
    while (grant.renewing !== null) await grant.renewing;
    grant.assertHeld();
    const failure = await this.#renew(grant, ttlMs);
    if (failure !== null) throw failure;
    grant.moveEnd(ttlMs);
    grant.assertHeld();
  }

  #renewLater(grant: Grant, sentMs: number, validForMs: number, remainingMs: number): void {
    // Never so late that one failure is one too many, whatever was asked for.
    const everyMs = Math.min(
      grant.renewEveryMs ?? validForMs * DEFAULTS.renewShare,
      remainingMs * RENEW_SHARE_MAX,
    );
    grant.everyMs = everyMs;
    // When the store is slow, what the answer took is taken off the time until the next question.
    grant.dueAtMs = Math.max(sentMs + everyMs, this.#core.clock.monotonicMs() + Math.max(everyMs / 4, 1));
    this.#wakeAt(grant.dueAtMs);
  }

  /** One timer for all of them. It may be left over from a grant that has gone since: at worst it looks too early. */
  #wakeAt(dueAtMs: number): void {
    if (dueAtMs >= this.#wakesAtMs) return;
    this.#wakesAtMs = dueAtMs;
    this.#timer?.cancel();
    const { clock } = this.#core;
    this.#timer = clock.startTimer(dueAtMs - clock.monotonicMs(), () => this.#onTimer());
  }

  /** What is due within a share of its interval goes together, so that it travels together and everybody is looked at only a few times in an interval. */
  #onTimer(): void {
    const nowMs = this.#core.clock.monotonicMs();
    const due: Grant[] = [];
    let nextMs = FOREVER_MS;
    for (const grant of this.#core.grants.all) {
      if (grant.dueAtMs - nowMs > grant.everyMs * SLACK_SHARE) nextMs = Math.min(nextMs, grant.dueAtMs);
      else due.push(grant);
    }
    this.#wakesAtMs = FOREVER_MS;
    this.#wakeAt(nextMs);
    for (const grant of due) {
      grant.dueAtMs = FOREVER_MS;
      this.#renewDue(grant);
    }
  }

  #renewDue(grant: Grant): void {
    if (grant.renewing !== null || grant.remainingMs() === 0) return;
    this.#watchDeadline(grant);
    void this.#renew(grant, grant.ttlMs);
  }

  /** One renewal. Resolves to `null`, or to why it failed; then the next try is already set. */
  #renew(grant: Grant, ttlMs: number): Promise<unknown> {
    grant.renewing = this.#attempt(grant, ttlMs).finally(() => {
      grant.renewing = null;
    });
    return grant.renewing;
  }

  async #attempt(grant: Grant, ttlMs: number): Promise<unknown> {
    const { clock, commands, store } = this.#core;
    const sent = instant(clock);
    // Several tries must fit into what is left, and an answer that comes later than this still counts.
    const limitMs = Math.min(DEFAULTS.commandMs, Math.max(grant.remainingMs() / 3, RETRY_MIN_MS));
    const doubt = grant.trust.doubt(sent, ttlMs);
    const onAnswer = (outcome: RenewOutcome): void => {
      grant.trust.resolve(doubt);
      this.#onAnswer(grant, sent, outcome, ttlMs);
    };
    const onLate = (outcome: RenewOutcome | null): void => {
      if (outcome !== null) onAnswer(outcome);
      grant.onLateRenewal();
    };
    try {
      const outcome = await commands.run(
        (signal) => store.renew(grant.ref, { ttlMs }, signal),
        limitMs,
        onLate,
      );
      onAnswer(outcome);
      return outcome.held || !grant.isLost ? null : grant.reason;
    } catch (error) {
      if (!isUnknown(error)) grant.trust.resolve(doubt);
      this.#onFailure(grant, error);
      return error;
    }
  }

  #onAnswer(grant: Grant, sent: Instant, outcome: RenewOutcome, ttlMs: number): void {
    if (!grant.isHeld) return;
    if (!outcome.held) {
      grant.lose(this.#core.store.traits.lifetime === 'session' ? 'session' : 'taken');
      return;
    }
    if (!grant.trust.confirm(sent, outcome.validForMs)) return;
    grant.ttlMs = ttlMs;
    if (grant.remainingMs() === 0) return;
    const tookMs = this.#core.clock.monotonicMs() - sent.monotonicMs;
    this.#core.emit('renewed', grant.ref, { tookMs, validForMs: outcome.validForMs });
    this.#unschedule(grant);
    this.start(grant, sent.monotonicMs, outcome.validForMs, grant.trust.remainingMs());
  }

  #onFailure(grant: Grant, error: unknown): void {
    const remainingMs = grant.remainingMs();
    if (remainingMs === 0) return;
    this.#core.emit('renewFailed', grant.ref, { error, remainingMs });
    if (!grant.renew) return;
    const { clock } = this.#core;
    const delayMs = Math.max(remainingMs * RETRY_SHARE * (0.5 + clock.random() / 2), RETRY_MIN_MS);
    grant.retry?.cancel();
    grant.retry = clock.startTimer(delayMs, () => this.#renewDue(grant));
  }

  /** Needed only while the next renewal may not come: otherwise the renewal itself finds out that the time is over. */
  #watchDeadline(grant: Grant): void {
    grant.timer?.cancel();
    const remainingMs = grant.remainingMs();
    if (remainingMs === 0) return;
    // A fraction that rounding leaves over must not make it fire at the same instant for ever.
    grant.timer = this.#core.clock.startTimer(Math.max(remainingMs, 1), () => this.#watchDeadline(grant));
  }

  /** The host has slept, or somebody has set its clock: timers that were set before fire too late now. */
  #afterJump(): void {
    for (const grant of [...this.#core.grants.all]) {
      if (grant.renew) this.#renewDue(grant);
      else this.#watchDeadline(grant);
    }
  }

  #watchSession(grant: Grant): void {
    if (grant.sessionWatch !== null) return;
    grant.sessionWatch = sendSafely(() => this.#core.store.watch(grant.ref, () => this.#renewDue(grant)));
    grant.sessionWatch.catch(() => {});
  }

  /** Timers do not run while a host sleeps and know nothing of the wall clock: look whether the clocks have moved apart. */
  #watchClocks(): void {
    if (this.#jumpTimer !== null) return;
    const { clock } = this.#core;
    this.#clockGapMs = clock.wallMs() - clock.monotonicMs();
    this.#jumpTimer = clock.startTimer(JUMP_CHECK_MS, () => {
      this.#jumpTimer = null;
      if (this.#core.grants.all.length === 0) return;
      const movedMs = clock.wallMs() - clock.monotonicMs() - this.#clockGapMs;
      if (movedMs > JUMP_MS) this.#afterJump();
      this.#watchClocks();
    });
  }
}
