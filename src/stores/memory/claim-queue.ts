import { agree, fits, weightOf } from '../../store/grant-rule.ts';
import type { ClaimRequest, Mode, Waiter } from '../../store/store.ts';
import { type Linked, LinkedList } from '../../util/linked-list.ts';

/** A claim in a queue. Waiting claims are linked in order. */
export interface MemoryClaim extends Linked<MemoryClaim> {
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
}

/**
 * The claims of one lock: the granted ones, then the waiting ones in order. The total weight of the
 * granted claims is kept, so that a handoff costs the same with ten waiters as with ten thousand.
 */
export class ClaimQueue {
  readonly claims = new Map<string, MemoryClaim>();
  readonly held = new Set<MemoryClaim>();
  readonly #positionMs: number;
  readonly #waiters = new LinkedList<MemoryClaim>();
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
    return this.#waiters.length;
  }

  get head(): MemoryClaim | null {
    return this.#waiters.first;
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
    return this.#waiters.length === 0 && fits(this.#weight, mode);
  }

  add(request: ClaimRequest): MemoryClaim {
    const { id, mode, ttlMs, note } = request;
    const claim: MemoryClaim = {
      id,
      mode,
      ttlMs,
      note,
      expiresAtMs: 0,
      fence: null,
      grantedAtMs: 0,
      waiter: null,
      previous: null,
      next: null,
      isLinked: false,
    };
    this.claims.set(id, claim);
    return claim;
  }

  enqueue(claim: MemoryClaim, nowMs: number): void {
    this.#waiters.push(claim);
    this.keepPosition(claim, nowMs);
  }

  grant(claim: MemoryClaim, fence: bigint, nowMs: number): void {
    this.#weight += weightOf(claim.mode);
    claim.fence = fence;
    claim.grantedAtMs = nowMs;
    this.held.add(claim);
    this.renew(claim, claim.ttlMs, nowMs);
  }

  renew(claim: MemoryClaim, ttlMs: number, nowMs: number): void {
    claim.ttlMs = ttlMs;
    claim.expiresAtMs = nowMs + ttlMs;
    this.#heldUntilMs = Math.min(this.#heldUntilMs, claim.expiresAtMs);
  }

  keepPosition(claim: MemoryClaim, nowMs: number): void {
    claim.expiresAtMs = nowMs + Math.max(claim.ttlMs, this.#positionMs);
    this.#waitUntilMs = Math.min(this.#waitUntilMs, claim.expiresAtMs);
  }

  remove(claim: MemoryClaim): void {
    this.claims.delete(claim.id);
    if (this.held.delete(claim)) {
      this.#weight -= weightOf(claim.mode);
      if (this.held.size === 0) this.#heldUntilMs = Number.POSITIVE_INFINITY;
    } else this.#waiters.delete(claim);
  }

  /** Removes the first waiter from the queue when it fits, so that it can be granted. */
  shiftFitting(): MemoryClaim | null {
    const claim = this.#waiters.first;
    if (claim === null || !fits(this.#weight, claim.mode)) return null;
    this.#waiters.delete(claim);
    return claim;
  }

  /** Drops the claims that have run out. */
  expire(nowMs: number): void {
    if (nowMs >= this.#heldUntilMs) this.#heldUntilMs = this.#expireAll(this.held, nowMs);
    if (nowMs >= this.#waitUntilMs) this.#waitUntilMs = this.#expireAll([...this.waiters()], nowMs);
  }

  *waiters(): Iterable<MemoryClaim> {
    for (let claim = this.#waiters.first; claim !== null; claim = claim.next) yield claim;
  }

  #expireAll(claims: Iterable<MemoryClaim>, nowMs: number): number {
    let next = Number.POSITIVE_INFINITY;
    for (const claim of claims) {
      if (claim.expiresAtMs <= nowMs) this.remove(claim);
      else next = Math.min(next, claim.expiresAtMs);
    }
    return next;
  }
}
