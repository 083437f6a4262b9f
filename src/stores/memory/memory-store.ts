import { checkType } from '../../checks.ts';
import type { Clock } from '../../clock.ts';
import { systemClock } from '../../clock.ts';
import { ClosedError, LineFullError, ModeMismatchError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Traits,
  WatchTarget,
} from '../../store/store.ts';
import { lineMaxOf } from '../line-max.ts';
import { Line, type LineClaim } from './line.ts';
import { Watchers } from './watchers.ts';

/** What of a memory store can be set. */
export interface MemoryStoreOptions {
  /** How many claims may wait for one lock. Default 10,000. */
  readonly lineMax?: number | undefined;
  /** For tests: the same virtual clock as the Locks. */
  readonly clock?: Clock | undefined;
}

/**
 * Locks inside one process, with everything the other stores have: the reference that they are compared with, and a fake for tests. Several Locks over
 * one memory store exclude each other as several processes would.
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store {
  checkType('options', options, 'object');
  return new MemoryStore(options.clock ?? systemClock, lineMaxOf(options));
}

class MemoryStore implements Store {
  readonly traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  readonly #clock: Clock;
  readonly #lineMax: number;
  readonly #lines = new Map<string, Line>();
  readonly #watchers = new Watchers();
  #lastFence = 0n;
  #closed = false;

  constructor(clock: Clock, lineMax: number) {
    this.#clock = clock;
    this.#lineMax = lineMax;
  }

  async claim(request: ClaimRequest): Promise<ClaimOutcome> {
    const now = this.#open();
    // Also for one that is granted later, by a hand-over.
    if (request.fenceAbove > this.#lastFence) this.#lastFence = request.fenceAbove;
    const line = this.#settledLine(request.name, now) ?? new Line(DEFAULTS.placeMs);
    const own = line.claims.get(request.id);
    if (own !== undefined) return this.#askAgain(request, line, own, now);
    const present = line.disagreement(request.mode);
    if (present !== null) throw new ModeMismatchError(request.name, request.mode, present);
    if (!line.fitsNow(request.mode)) return this.#standInLine(request, line, now);
    const claim = line.add(request);
    const fence = this.#nextFence();
    line.grant(claim, fence, now);
    this.#lines.set(request.name, line);
    this.#watchers.tellName(request.name);
    return { granted: true, fence, validForMs: request.ttlMs };
  }

  async renew(ref: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
    const now = this.#open();
    const line = this.#settledLine(ref.name, now);
    const claim = line?.claims.get(ref.id);
    if (line === undefined || claim === undefined || claim.fence === null) return { held: false };
    if (change.note !== undefined) claim.note = change.note;
    line.renew(claim, change.ttlMs, now);
    return { held: true, validForMs: change.ttlMs };
  }

  async release(ref: ClaimRef): Promise<boolean> {
    const now = this.#open();
    const line = this.#settledLine(ref.name, now);
    const claim = line?.claims.get(ref.id);
    if (line === undefined || claim === undefined) return false;
    line.remove(claim);
    this.#promote(ref.name, line, now);
    this.#watchers.tellName(ref.name);
    return true;
  }

  async evict(ref: ClaimRef): Promise<boolean> {
    return await this.release(ref);
  }

  async watch(target: WatchTarget, wake: () => void): Promise<AsyncDisposable> {
    this.#open();
    return this.#watchers.add(target, wake);
  }

  async read(name: string): Promise<readonly StoredClaim[]> {
    const now = this.#open();
    const line = this.#settledLine(name, now);
    if (line === undefined) return [];
    return [...line.held, ...line.waiters()].map((claim) => describe(claim, now));
  }

  async *list(prefix: string): AsyncIterable<string> {
    this.#open();
    for (const name of [...this.#lines.keys()]) {
      const line = name.startsWith(prefix) ? this.#settledLine(name, this.#open()) : undefined;
      if (line !== undefined) yield name;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#lines.clear();
    this.#watchers.clear();
  }

  #open(): number {
    if (this.#closed) throw new ClosedError('This store is closed');
    return this.#clock.monotonicMs();
  }

  /** The line without what has run out, and with those granted whom that makes room for; none when it is empty. */
  #settledLine(name: string, now: number): Line | undefined {
    const line = this.#lines.get(name);
    if (line === undefined) return undefined;
    const before = line.claims.size;
    line.expire(now);
    if (line.claims.size < before) {
      this.#promote(name, line, now);
      this.#watchers.tellName(name);
    }
    return line.isEmpty ? undefined : line;
  }

  #askAgain(request: ClaimRequest, line: Line, claim: LineClaim, now: number): ClaimOutcome {
    if (claim.fence !== null) {
      line.renew(claim, request.ttlMs, now);
      return { granted: true, fence: claim.fence, validForMs: request.ttlMs };
    }
    claim.ttlMs = request.ttlMs;
    line.keepPlace(claim, now);
    return this.#refuse(request.name, line, claim, now);
  }

  #standInLine(request: ClaimRequest, line: Line, now: number): ClaimOutcome {
    if (!request.wait) return this.#refuse(request.name, line, null, now);
    if (line.waiting >= this.#lineMax) throw new LineFullError(request.name, this.#lineMax);
    const claim = line.add(request);
    line.enqueue(claim, now);
    this.#watchers.tellName(request.name);
    return this.#refuse(request.name, line, claim, now);
  }

  #refuse(name: string, line: Line, claim: LineClaim | null, now: number): ClaimOutcome {
    if (claim !== null) this.#watchExpiry(name, line, now);
    const askAgainMs = DEFAULTS.placeMs / 3;
    // Only the head asks when a hold runs out; the others only keep their places.
    const untilFreeMs = line.head === claim ? Math.max(line.heldUntilMs - now, 1) : askAgainMs;
    return { granted: false, retryAfterMs: Math.min(untilFreeMs, askAgainMs) };
  }

  /** Grants whoever fits now, in order. */
  #promote(name: string, line: Line, now: number): void {
    for (let claim = line.shiftFitting(); claim !== null; claim = line.shiftFitting()) {
      line.grant(claim, this.#nextFence(), now);
      this.#watchers.tellClaim(claim.id);
    }
    if (line.isEmpty) this.#lines.delete(name);
    else if (line.head !== null) this.#watchExpiry(name, line, now);
  }

  /** When a timer looks at a lock whose hold may end without a word while somebody waits. */
  readonly #lookAt = new Map<Line, number>();

  #watchExpiry(name: string, line: Line, now: number): void {
    const dueMs = line.heldUntilMs;
    if (dueMs === Number.POSITIVE_INFINITY || dueMs >= (this.#lookAt.get(line) ?? Number.POSITIVE_INFINITY))
      return;
    this.#lookAt.set(line, dueMs);
    this.#clock.startTimer(Math.max(dueMs - now, 1), () => {
      // A later timer was overtaken by an earlier one.
      if (this.#lookAt.get(line) !== dueMs) return;
      this.#lookAt.delete(line);
      if (this.#closed || this.#lines.get(name) !== line) return;
      const later = this.#clock.monotonicMs();
      if (this.#settledLine(name, later)?.head != null) this.#watchExpiry(name, line, later);
    });
  }

  /** Rises even when the process starts again, as long as the wall clock does not go back. */
  #nextFence(): bigint {
    const fence = BigInt(Math.floor(this.#clock.wallMs() * 1000));
    this.#lastFence = fence > this.#lastFence ? fence : this.#lastFence + 1n;
    return this.#lastFence;
  }
}

function describe(claim: LineClaim, now: number): StoredClaim {
  const granted = claim.fence !== null;
  return {
    id: claim.id,
    granted,
    mode: claim.mode,
    fence: claim.fence,
    heldForMs: granted ? now - claim.grantedAtMs : null,
    expiresInMs: claim.expiresAtMs - now,
    note: claim.note,
  };
}
