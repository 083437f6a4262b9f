import type { Clock } from '../../clock.ts';
import { elapsedMs, type Instant } from '../../hold/validity.ts';
import type { Granted } from './calls.ts';
import type { Alive } from './keep-alives.ts';

/**
 * A lease of etcd and the claims of this process that live on it.
 *
 * It is trusted from the send of the last request that extended it *for certain*. A grant is: a majority has agreed on it. The answer to a keep-alive is not: a member that was
 * leader and has slept answers it from its own memory, until it learns that others have gone on (the servers before 3.4.31 and 3.5.13 do). So it counts
 * only together with a transaction that was sent no earlier than it and that shows no later term: then that member was leader when the keep-alive was sent, and
 * every later leader begins with the full time of every lease.
 */
export class Lease {
  readonly id: string;
  /** What was asked for. Leases of the same asked time are shared. */
  readonly seconds: number;
  /** What was granted: at least what was asked for. */
  readonly ttlMs: number;
  /** Keys of the claims that are or may be on it. */
  readonly claims = new Set<string>();
  /** It is renewed for those of its claims that ask for it, so the others must be removed when their own time is over. */
  isKept = false;
  /**
   * A write on it may still take effect, after we have given up on its claim. It is never kept alive again, so that whatever appears on it goes with it; claims
   * that want to go on move to another lease.
   */
  isTainted = false;
  /** Claims are on it that this store has let go of and no longer knows: nothing may prolong them. */
  hasStrangers = false;
  isGone = false;
  /**
   * Another leader rules than when it was granted. Before 3.4.31 and 3.5.13 the old one, when it wakes, revokes the leases that have ended by its own memory (#15247). It knows this one,
   * but not those that were granted since: claims that go on move there.
   */
  isOutdated = false;
  readonly #term: number;
  #confirmed: Instant;
  readonly #clock: Clock;

  constructor(clock: Clock, seconds: number, granted: Granted) {
    this.#clock = clock;
    this.seconds = seconds;
    this.id = granted.id;
    this.ttlMs = granted.ttlMs;
    this.#confirmed = granted.sent;
    this.#term = granted.term;
  }

  /** What is left of it, counted from `sent`. Both clocks are looked at: a host that slept since has lost that time too. */
  validForMs(sent: Instant): number {
    const { monotonicMs, wallMs } = this.#confirmed;
    return this.ttlMs - Math.max(sent.monotonicMs - monotonicMs, sent.wallMs - wallMs);
  }

  get ageMs(): number {
    return elapsedMs(this.#clock, this.#confirmed);
  }

  get leftMs(): number {
    return this.ttlMs - this.ageMs;
  }

  get isEmpty(): boolean {
    return this.claims.size === 0 && !this.hasStrangers;
  }

  /** May it be kept alive? */
  get canGoOn(): boolean {
    const isSound = !this.isTainted && !this.isOutdated && !this.hasStrangers && !this.isGone;
    return isSound && this.leftMs > 0;
  }

  /** May new claims come onto it? */
  get canBeShared(): boolean {
    return !this.isKept && !this.isTainted && !this.isOutdated && !this.isGone;
  }

  /** A transaction has been answered in this term. */
  see(term: number): void {
    if (term > this.#term) this.isOutdated = true;
  }

  /** `term` is that of a transaction that was sent no earlier than the keep-alive. False when the answer cannot be relied on. */
  confirm(alive: Alive, term: number): boolean {
    if (alive.ttlMs === 0 || alive.term < term) return false;
    if (alive.sent.monotonicMs > this.#confirmed.monotonicMs) this.#confirmed = alive.sent;
    return true;
  }
}

/** Stands in for a lease that somebody else has asked for: nothing may be expected of it. */
export function unknownLease(clock: Clock): Lease {
  const never = { monotonicMs: Number.NEGATIVE_INFINITY, wallMs: Number.NEGATIVE_INFINITY };
  const lease = new Lease(clock, -1, { id: '0', ttlMs: 0, sent: never, term: 0 });
  lease.isGone = true;
  return lease;
}
