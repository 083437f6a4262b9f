import { DEFAULTS } from '../../options.ts';
import { fits, weightOf } from '../../store/grant-rule.ts';
import type { ClaimRequest, Mode, Waiter } from '../../store/store.ts';
import type { EarliestTimer } from '../../util/earliest-timer.ts';
import { type Linked, LinkedList } from '../../util/linked-list.ts';

export class MemoryClaim implements Linked<MemoryClaim> {
  readonly id: string;
  readonly mode: Mode;
  ttlMs: number;
  note: string;
  expiresAtMs = 0;
  /** Set when granted. */
  fence: bigint | null = null;
  grantedAtMs = 0;
  /** Set while the claim waits. */
  waiter: Waiter | null = null;
  previous: MemoryClaim | null = null;
  next: MemoryClaim | null = null;
  isLinked = false;

  constructor({ id, mode, ttlMs, note }: ClaimRequest) {
    this.id = id;
    this.mode = mode;
    this.ttlMs = ttlMs;
    this.note = note;
  }
}

/**
 * The claims of one lock: the granted ones, then the waiting ones in order. The total weight of the
 * granted claims is kept, so that a handoff costs the same with ten waiters as with ten thousand.
 */
export class ClaimQueue {
  readonly held = new LinkedList<MemoryClaim>();
  readonly waiting = new LinkedList<MemoryClaim>();
  /** No claim expires before this time. A lower bound, corrected when it is reached. */
  firstEndMs = Number.POSITIVE_INFINITY;
  /** Fires when the store looks at this queue again. Made for the first waiter. */
  expiry: EarliestTimer | null = null;
  readonly #byId = new Map<string, MemoryClaim>();
  #weight = 0;

  get isEmpty(): boolean {
    return this.#byId.size === 0;
  }

  get mode(): Mode | null {
    return (this.held.first ?? this.waiting.first)?.mode ?? null;
  }

  /** The next claim to grant: the first that waits, when it fits. */
  get next(): MemoryClaim | null {
    const { first } = this.waiting;
    return first !== null && fits(this.#weight, first.mode) ? first : null;
  }

  get(id: string): MemoryClaim | undefined {
    return this.#byId.get(id);
  }

  add(request: ClaimRequest, nowMs: number): MemoryClaim {
    const claim = new MemoryClaim(request);
    this.#byId.set(claim.id, claim);
    this.waiting.push(claim);
    this.keep(claim, claim.ttlMs, nowMs);
    return claim;
  }

  grant(claim: MemoryClaim, fence: bigint, nowMs: number): void {
    this.waiting.delete(claim);
    this.held.push(claim);
    this.#weight += weightOf(claim.mode);
    claim.fence = fence;
    claim.grantedAtMs = nowMs;
    this.keep(claim, claim.ttlMs, nowMs);
  }

  /** Renews a hold, or keeps a queue position. */
  keep(claim: MemoryClaim, ttlMs: number, nowMs: number): void {
    claim.ttlMs = ttlMs;
    claim.expiresAtMs = nowMs + (claim.fence === null ? Math.max(ttlMs, DEFAULTS.queuePositionMs) : ttlMs);
    this.firstEndMs = Math.min(this.firstEndMs, claim.expiresAtMs);
  }

  remove(claim: MemoryClaim): void {
    this.#byId.delete(claim.id);
    if (claim.fence === null) this.waiting.delete(claim);
    else {
      this.held.delete(claim);
      this.#weight -= weightOf(claim.mode);
    }
  }

  /** Drops the claims that have run out. Returns whether there were any. */
  expire(nowMs: number): boolean {
    if (nowMs < this.firstEndMs) return false;
    const before = this.#byId.size;
    this.firstEndMs = Number.POSITIVE_INFINITY;
    for (const claim of [...this.held, ...this.waiting]) {
      if (claim.expiresAtMs <= nowMs) this.remove(claim);
      else this.firstEndMs = Math.min(this.firstEndMs, claim.expiresAtMs);
    }
    return this.#byId.size < before;
  }
}
