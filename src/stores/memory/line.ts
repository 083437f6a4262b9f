import { agree, fits, weightOf } from '../../store/grant-rule.ts';
import type { ClaimRequest, Mode } from '../../store/store.ts';

/** A claim in a line. Waiting claims are linked in order. */
export interface LineClaim {
  readonly id: string;
  readonly mode: Mode;
  ttlMs: number;
  note: string;
  expiresAtMs: number;
  /** Set when granted. */
  fence: bigint | null;
  grantedAtMs: number;
  ahead: LineClaim | null;
  behind: LineClaim | null;
}

/**
 * The claims of one lock. The granted ones are the front of the line; what they weigh is kept, so that the next claim is weighed against one number and
 * a hand-over costs the same with ten waiters as with ten thousand.
 */
export class Line {
  readonly claims = new Map<string, LineClaim>();
  readonly held = new Set<LineClaim>();
  readonly #placeMs: number;
  #first: LineClaim | null = null;
  #last: LineClaim | null = null;
  #weight = 0;
  /** Not later than the first to expire; may be earlier, and is then found again. */
  #heldUntilMs = Number.POSITIVE_INFINITY;
  #waitUntilMs = Number.POSITIVE_INFINITY;

  constructor(placeMs: number) {
    this.#placeMs = placeMs;
  }

  get isEmpty(): boolean {
    return this.claims.size === 0;
  }

  get waiting(): number {
    return this.claims.size - this.held.size;
  }

  get head(): LineClaim | null {
    return this.#first;
  }

  /** When the first hold runs out, or a little earlier. */
  get heldUntilMs(): number {
    return this.#heldUntilMs;
  }

  /** The mode of a claim that a new one of this mode cannot stand beside. */
  disagreement(mode: Mode): Mode | null {
    const [present] = this.claims.values();
    return present === undefined || agree(present.mode, mode) ? null : present.mode;
  }

  fitsNow(mode: Mode): boolean {
    return this.#first === null && fits(this.#weight, mode);
  }

  add(request: ClaimRequest): LineClaim {
    const { id, mode, ttlMs, note } = request;
    const claim: LineClaim = {
      id,
      mode,
      ttlMs,
      note,
      expiresAtMs: 0,
      fence: null,
      grantedAtMs: 0,
      ahead: null,
      behind: null,
    };
    this.claims.set(id, claim);
    return claim;
  }

  enqueue(claim: LineClaim, nowMs: number): void {
    claim.ahead = this.#last;
    if (this.#last === null) this.#first = claim;
    else this.#last.behind = claim;
    this.#last = claim;
    this.keepPlace(claim, nowMs);
  }

  grant(claim: LineClaim, fence: bigint, nowMs: number): void {
    this.#weight += weightOf(claim.mode);
    claim.fence = fence;
    claim.grantedAtMs = nowMs;
    this.held.add(claim);
    this.renew(claim, claim.ttlMs, nowMs);
  }

  renew(claim: LineClaim, ttlMs: number, nowMs: number): void {
    claim.ttlMs = ttlMs;
    claim.expiresAtMs = nowMs + ttlMs;
    this.#heldUntilMs = Math.min(this.#heldUntilMs, claim.expiresAtMs);
  }

  keepPlace(claim: LineClaim, nowMs: number): void {
    claim.expiresAtMs = nowMs + Math.max(claim.ttlMs, this.#placeMs);
    this.#waitUntilMs = Math.min(this.#waitUntilMs, claim.expiresAtMs);
  }

  remove(claim: LineClaim): void {
    this.claims.delete(claim.id);
    if (this.held.delete(claim)) {
      this.#weight -= weightOf(claim.mode);
      if (this.held.size === 0) this.#heldUntilMs = Number.POSITIVE_INFINITY;
    } else this.#unlink(claim);
  }

  /** Takes the head out of the waiting part when it fits, for granting. */
  shiftFitting(): LineClaim | null {
    const claim = this.#first;
    if (claim === null || !fits(this.#weight, claim.mode)) return null;
    this.#unlink(claim);
    return claim;
  }

  /** Drops what has run out. */
  expire(nowMs: number): void {
    if (nowMs >= this.#heldUntilMs) this.#heldUntilMs = this.#expireAll(this.held, nowMs);
    if (nowMs >= this.#waitUntilMs) this.#waitUntilMs = this.#expireAll(this.#places(), nowMs);
  }

  *waiters(): Iterable<LineClaim> {
    for (let claim = this.#first; claim !== null; claim = claim.behind) yield claim;
  }

  #places(): LineClaim[] {
    return [...this.waiters()];
  }

  #expireAll(claims: Iterable<LineClaim>, nowMs: number): number {
    let next = Number.POSITIVE_INFINITY;
    for (const claim of claims) {
      if (claim.expiresAtMs <= nowMs) this.remove(claim);
      else next = Math.min(next, claim.expiresAtMs);
    }
    return next;
  }

  #unlink(claim: LineClaim): void {
    if (claim.ahead === null) this.#first = claim.behind;
    else claim.ahead.behind = claim.behind;
    if (claim.behind === null) this.#last = claim.ahead;
    else claim.behind.ahead = claim.ahead;
    claim.ahead = null;
    claim.behind = null;
  }
}
