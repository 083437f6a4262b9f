import { type Clock, FOREVER_MS } from '../clock.ts';
import { elapsedMs, type Instant, trustedMs } from './validity.ts';

/** A command that may have set the claim's time, or may yet do so: it was sent, and its answer is not known. */
export interface Doubt {
  readonly sent: Instant;
  readonly ttlMs: number;
}

/** How long a claim can be trusted, from what was asked and what was answered. */
export class Trust {
  readonly #clock: Clock;
  #sent: Instant;
  #validForMs: number;
  /** Commands sent after the last one that was confirmed: from its sending on, each may have set the time to its own. */
  #doubts: Set<Doubt> | null = null;
  /** The shortest time of those sent before it: they may still be carried out, after it. */
  #leastMs = FOREVER_MS;

  /** Where times to live mean nothing to the store, commands cannot change them. */
  readonly #hasTtl: boolean;

  constructor(clock: Clock, sent: Instant, validForMs: number, hasTtl: boolean) {
    this.#hasTtl = hasTtl;
    this.#clock = clock;
    this.#sent = sent;
    this.#validForMs = validForMs;
  }

  /** Not positive once it is over. */
  remainingMs(): number {
    let remaining = trustedMs(Math.min(this.#validForMs, this.#leastMs)) - elapsedMs(this.#clock, this.#sent);
    for (const { sent, ttlMs } of this.#doubts ?? []) {
      remaining = Math.min(remaining, trustedMs(ttlMs) - elapsedMs(this.#clock, sent));
    }
    return remaining;
  }

  doubt(sent: Instant, ttlMs: number): Doubt {
    const doubt = { sent, ttlMs };
    if (this.#hasTtl) {
      this.#doubts ??= new Set();
      this.#doubts.add(doubt);
    }
    return doubt;
  }

  /** A command from before the grant, such as a first claim without an answer, may still be carried out. */
  suspect(ttlMs: number): void {
    if (this.#hasTtl) this.#leastMs = Math.min(this.#leastMs, ttlMs);
  }

  /** Its answer is known. */
  resolve(doubt: Doubt): void {
    this.#doubts?.delete(doubt);
  }

  /** The store has confirmed the claim in answer to a request sent then. False when a later one was confirmed before. */
  confirm(sent: Instant, validForMs: number): boolean {
    if (sent.monotonicMs < this.#sent.monotonicMs) return false;
    this.#sent = sent;
    this.#validForMs = validForMs;
    for (const doubt of this.#doubts ?? []) {
      if (doubt.sent.monotonicMs > sent.monotonicMs) continue;
      this.suspect(doubt.ttlMs);
      this.resolve(doubt);
    }
    return true;
  }
}
