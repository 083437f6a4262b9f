import { type Clock, FOREVER_MS } from '../clock.ts';
import type { LossReason } from '../errors.ts';
import { elapsedMs, type Instant, trustedMs } from '../store/validity.ts';

/**
 * A command that may have set the TTL of the claim, or may yet do so: it was sent, and its answer is
 * not known.
 */
export interface Unanswered {
  readonly sent: Instant;
  readonly ttlMs: number;
}

/** Until when a claim can be trusted, by the requests that were sent and the answers to them. */
export class Deadline {
  protected readonly clock: Clock;
  /** False on a store without TTLs, where commands cannot change them. */
  readonly #hasTtl: boolean;
  #sent: Instant;
  #validForMs: number;
  /**
   * Commands sent after the last confirmed one: each may have set the TTL, counted from when it was
   * sent.
   */
  #unanswered: Set<Unanswered> | null = null;
  /**
   * The shortest TTL of the unanswered commands that were sent before the last confirmed one: the
   * store may still execute them, after that one.
   */
  #leastMs = FOREVER_MS;

  constructor(clock: Clock, sent: Instant, validForMs: number, hasTtl: boolean) {
    this.clock = clock;
    this.#hasTtl = hasTtl;
    this.#sent = sent;
    this.#validForMs = validForMs;
  }

  /** Not positive once the claim cannot be trusted any more. */
  remainingMs(): number {
    let remaining = trustedMs(Math.min(this.#validForMs, this.#leastMs)) - elapsedMs(this.clock, this.#sent);
    for (const { sent, ttlMs } of this.#unanswered ?? []) {
      remaining = Math.min(remaining, trustedMs(ttlMs) - elapsedMs(this.clock, sent));
    }
    return remaining;
  }

  /** What is left of the time that the store has granted, without the margin for clocks. */
  grantedMs(): number {
    return Math.min(this.#validForMs, this.#leastMs) - elapsedMs(this.clock, this.#sent);
  }

  /** The end of the deadline by each clock. The earlier of the two counts. */
  end(): Instant {
    const trusted = [{ sent: this.#sent, ttlMs: this.#validForMs }, ...(this.#unanswered ?? [])];
    const endBy = (clock: keyof Instant): number =>
      Math.min(...trusted.map(({ sent, ttlMs }) => sent[clock] + trustedMs(Math.min(ttlMs, this.#leastMs))));
    return { monotonicMs: endBy('monotonicMs'), wallMs: endBy('wallMs') };
  }

  /** The shortest TTL that a command of unknown outcome may have set, or may yet set. */
  get leastMs(): number {
    return this.#leastMs;
  }

  /** Why the hold is over, where that is known before the core is told. */
  lossReason(): LossReason | null {
    return null;
  }

  /** A command that sets the TTL is pending from now on. */
  onSent(sent: Instant, ttlMs: number): Unanswered {
    const command = { sent, ttlMs };
    if (this.#hasTtl) {
      this.#unanswered ??= new Set();
      this.#unanswered.add(command);
    }
    return command;
  }

  onAnswered(command: Unanswered): void {
    this.#unanswered?.delete(command);
  }

  /**
   * An earlier command whose answer will never be known may still be executed: trust the claim for no
   * longer than its TTL.
   */
  limitTo(ttlMs: number): void {
    if (this.#hasTtl) this.#leastMs = Math.min(this.#leastMs, ttlMs);
  }

  /**
   * The store has confirmed the claim in answer to a request sent at `sent`. False when a later
   * request was confirmed before.
   */
  confirm(sent: Instant, validForMs: number): boolean {
    if (sent.monotonicMs < this.#sent.monotonicMs) return false;
    this.#sent = sent;
    this.#validForMs = validForMs;
    for (const command of this.#unanswered ?? []) {
      if (command.sent.monotonicMs > sent.monotonicMs) continue;
      this.limitTo(command.ttlMs);
      this.onAnswered(command);
    }
    return true;
  }
}
