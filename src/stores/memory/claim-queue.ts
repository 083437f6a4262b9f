import { agree, fits, weightOf } from '../../store/grant-rule.ts';
import type { ClaimRequest, Mode, Waiter } from '../../store/store.ts';

/** A claim in a queue. Waiting claims are linked in order. */
export interface QueuedClaim {
  readonly id: string;
  readonly mode: Mode;
  ttlMs: number;
  note: string;
  expiresAtMs: number;
  /** Set when granted. */
  fence: bigint | null;
  grantedAtMs: number;
  /** Set while the claim waits. */
  waiter: Waiter | null;
  ahead: QueuedClaim | null;
  behind: QueuedClaim | null;
}

/**
 * The claims of one lock: the granted ones, then the waiting ones in order. The total weight of the
 * granted claims is kept, so that a handoff costs the same with ten waiters as with ten thousand.
 */
export class ClaimQueue {
  readonly claims = new Map<string, QueuedClaim>();
  readonly held = new Set<QueuedClaim>();
  readonly #positionMs: number;
  #first: QueuedClaim | null = null;
  #last: QueuedClaim | null = null;
  #weight = 0;
  /** A lower bound of the first expiry, corrected when it is reached. */
  #heldUntilMs = Number.POSITIVE_INFINITY;
  #waitUntilMs = Number.POSITIVE_INFINITY;

  constructor(positionMs: number) {
    this.#positionMs = positionMs;
  }

  get isEmpty(): boolean {
    return this.claims.size === 0;
  }

  get waiting(): number {
    return this.claims.size - this.held.size;
  }

  get head(): QueuedClaim | null {
    return this.#first;
  }

  /** A lower bound of when the first hold runs out. */
  get heldUntilMs(): number {
    return this.#heldUntilMs;
  }

  /** The mode that the lock has, when a claim of this mode does not fit it. */
  disagreement(mode: Mode): Mode | null {
    const [present] = this.claims.values();
    return present === undefined || agree(present.mode, mode) ? null : present.mode;
  }

  fitsNow(mode: Mode): boolean {
    return this.#first === null && fits(this.#weight, mode);
  }

  add(request: ClaimRequest): QueuedClaim {
    const { id, mode, ttlMs, note } = request;
    const claim: QueuedClaim = {
      id,
      mode,
      ttlMs,
      note,
      expiresAtMs: 0,
      fence: null,
      grantedAtMs: 0,
      waiter: null,
      ahead: null,
      behind: null,
    };
    this.claims.set(id, claim);
    return claim;
  }

  enqueue(claim: QueuedClaim, nowMs: number): void {
    claim.ahead = this.#last;
    if (this.#last === null) this.#first = claim;
    else this.#last.behind = claim;
    this.#last = claim;
    this.keepPosition(claim, nowMs);
  }

  grant(claim: QueuedClaim, fence: bigint, nowMs: number): void {
    this.#weight += weightOf(claim.mode);
    claim.fence = fence;
    claim.grantedAtMs = nowMs;
    this.held.add(claim);
    this.renew(claim, claim.ttlMs, nowMs);
  }

  renew(claim: QueuedClaim, ttlMs: number, nowMs: number): void {
    claim.ttlMs = ttlMs;
    claim.expiresAtMs = nowMs + ttlMs;
    this.#heldUntilMs = Math.min(this.#heldUntilMs, claim.expiresAtMs);
  }

  keepPosition(claim: QueuedClaim, nowMs: number): void {
    claim.expiresAtMs = nowMs + Math.max(claim.ttlMs, this.#positionMs);
    this.#waitUntilMs = Math.min(this.#waitUntilMs, claim.expiresAtMs);
  }

  remove(claim: QueuedClaim): void {
    this.claims.delete(claim.id);
    if (this.held.delete(claim)) {
      this.#weight -= weightOf(claim.mode);
      if (this.held.size === 0) this.#heldUntilMs = Number.POSITIVE_INFINITY;
    } else this.#unlink(claim);
  }

  /** Removes the first waiter from the queue when it fits, so that it can be granted. */
  shiftFitting(): QueuedClaim | null {
    const claim = this.#first;
    if (claim === null || !fits(this.#weight, claim.mode)) return null;
    this.#unlink(claim);
    return claim;
  }

  /** Drops the claims that have run out. */
  expire(nowMs: number): void {
    if (nowMs >= this.#heldUntilMs) this.#heldUntilMs = this.#expireAll(this.held, nowMs);
    if (nowMs >= this.#waitUntilMs) this.#waitUntilMs = this.#expireAll(this.#allWaiters(), nowMs);
  }

  *waiters(): Iterable<QueuedClaim> {
    for (let claim = this.#first; claim !== null; claim = claim.behind) yield claim;
  }

  #allWaiters(): QueuedClaim[] {
    return [...this.waiters()];
  }

  #expireAll(claims: Iterable<QueuedClaim>, nowMs: number): number {
    let next = Number.POSITIVE_INFINITY;
    for (const claim of claims) {
      if (claim.expiresAtMs <= nowMs) this.remove(claim);
      else next = Math.min(next, claim.expiresAtMs);
    }
    return next;
  }

  #unlink(claim: QueuedClaim): void {
    if (claim.ahead === null) this.#first = claim.behind;
    else claim.ahead.behind = claim.behind;
    if (claim.behind === null) this.#last = claim.ahead;
    else claim.behind.ahead = claim.ahead;
    claim.ahead = null;
    claim.behind = null;
  }
}
