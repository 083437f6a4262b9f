import { type Clock, systemClock } from '../../clock.ts';
import { type Instant, instant } from '../../store/validity.ts';
import type { Alive, Granted } from './calls.ts';
import type { Claim } from './claim.ts';

/**
 * | state    | takes new claims | is extended                     |
 * |----------|------------------|---------------------------------|
 * | `open`   | yes              | while it is empty               |
 * | `fixed`  | yes              | never: a claim was left behind  |
 * | `kept`   | no               | for the claims that are renewed |
 * | `ending` | no               | never: claims move elsewhere    |
 */
export type LeaseState = 'open' | 'fixed' | 'kept' | 'ending';

/**
 * A lease of etcd, and the claims of this process that are attached to it.
 *
 * The lease is trusted from the send of the last request that extended it *for certain*. A grant is
 * certain, because a majority has agreed on it. The answer to a keep-alive is not: a leader that
 * was paused answers from its own memory until it learns of its successor (servers before 3.4.31
 * and 3.5.13). So a keep-alive counts only together with a transaction that was sent no earlier and
 * shows no later term. Then the member was leader when the keep-alive was sent, and every later
 * leader starts with the full time of every lease.
 */
export class Lease {
  readonly id: string;
  /** The requested time. Claims share leases of the same requested time. */
  readonly seconds: number;
  /** The granted time, which is at least the requested time. */
  readonly ttlMs: number;
  /** The claims that are or may be attached to the lease. */
  readonly claims = new Set<Claim>();
  state: LeaseState = 'open';
  /** The keep-alive that has no answer yet. */
  pending: { readonly sentMs: number; readonly alive: Promise<Alive> } | null = null;
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

  /** The time left, counted from `sent`, by the clock that moved further: a host may sleep. */
  validForMs(sent: Instant): number {
    const { monotonicMs, wallMs } = this.#confirmed;
    return this.ttlMs - Math.max(sent.monotonicMs - monotonicMs, sent.wallMs - wallMs);
  }

  get leftMs(): number {
    return this.validForMs(instant(this.#clock));
  }

  /** Extending the lease would extend no claim. */
  get isEmpty(): boolean {
    return this.claims.size === 0 && this.state !== 'fixed';
  }

  /** The lease may be extended. */
  get canGoOn(): boolean {
    return (this.state === 'open' || this.state === 'kept') && this.leftMs > 0;
  }

  /** New claims may be attached to the lease. */
  get canBeShared(): boolean {
    return this.state === 'open' || this.state === 'fixed';
  }

  /**
   * The lease is never extended again. It is gone, or a write may still attach a key to it although
   * the claim was given up. Such a key ends with the lease. Renewed claims move to another lease.
   */
  end(): void {
    this.state = 'ending';
  }

  /**
   * A transaction was answered in this term. `alive`: the answer to a keep-alive that was sent no
   * later than the transaction. False: the keep-alive does not count.
   *
   * If the leader has changed since the lease was granted, renewed claims leave the lease: before
   * 3.4.31 and 3.5.13, an old leader that resumes revokes the leases that have expired by its
   * outdated state (#15247). It knows this lease, but none that was granted since.
   */
  confirm(alive: Alive | null, term: number): boolean {
    if (term > this.#term || alive?.ttlMs === 0) this.end();
    if (alive === null) return true;
    if (alive.ttlMs === 0 || alive.term < term) return false;
    if (alive.sent.monotonicMs > this.#confirmed.monotonicMs) this.#confirmed = alive.sent;
    return true;
  }
}

/**
 * Stands for a lease that this store does not know: of another store, or of an earlier request. Its
 * time is over by any clock.
 */
export function unknownLease(): Lease {
  const never = { monotonicMs: Number.NEGATIVE_INFINITY, wallMs: Number.NEGATIVE_INFINITY };
  return new Lease(systemClock, -1, { id: '0', ttlMs: 0, sent: never, term: 0 });
}
