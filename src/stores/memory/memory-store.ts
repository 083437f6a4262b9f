import { checkKeys } from '../../checks.ts';
import type { Clock } from '../../clock.ts';
import { systemClock } from '../../clock.ts';
import { ModeMismatchError, QueueFullError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import type { Finding } from '../../store/finding.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Traits,
  Waiter,
  WatchTarget,
} from '../../store/store.ts';
import { CallbackIndex, disposable } from '../shared/callback-index.ts';
import { EvictionListeners } from '../shared/eviction-listeners.ts';
import { queueMaxOf } from '../shared/queue-max.ts';
import { storeClosed } from '../shared/store-closed.ts';
import { ClaimQueue, type MemoryClaim } from './claim-queue.ts';

/** Options of a memory store. */
export interface MemoryStoreOptions {
  /** How many claims may wait for one lock. Default 10,000. */
  readonly queueMax?: number | undefined;
  /** For tests: the same virtual clock as the Locks. */
  readonly clock?: Clock | undefined;
}

/**
 * Locks inside one process: the reference that the other stores are compared with, and a store for
 * your tests. Several Locks over one memory store exclude each other as several processes would.
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store {
  checkKeys(options, ['queueMax', 'clock']);
  return new MemoryStore(options.clock ?? systemClock, queueMaxOf(options));
}

class MemoryStore implements Store {
  readonly kind = 'memory';
  readonly traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  readonly #clock: Clock;
  readonly #queueMax: number;
  readonly #queues = new Map<string, ClaimQueue>();
  readonly #observers = new CallbackIndex();
  readonly #evictions = new EvictionListeners();
  readonly onEvicted = this.#evictions.add;
  #lastFence = 0n;
  #closed = false;

  constructor(clock: Clock, queueMax: number) {
    this.#clock = clock;
    this.#queueMax = queueMax;
  }

  async claim(request: ClaimRequest, _signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    const now = this.#open();
    // Counts also for a claim that waits and is granted later.
    if (request.fenceAbove > this.#lastFence) this.#lastFence = request.fenceAbove;
    const queue = this.#settledQueue(request.name, now) ?? new ClaimQueue(DEFAULTS.queuePositionMs);
    const own = queue.claims.get(request.id);
    if (own !== undefined) return this.#askAgain(request, queue, own, now, waiter);
    const present = queue.disagreement(request.mode);
    if (present !== null) throw new ModeMismatchError(request.name, request.mode, present);
    if (!queue.fitsNow(request.mode)) return this.#enqueue(request, queue, now, waiter);
    const claim = queue.add(request);
    const fence = this.#nextFence();
    queue.grant(claim, fence, now);
    this.#queues.set(request.name, queue);
    this.#observers.call(request.name);
    return { granted: true, fence, validForMs: request.ttlMs };
  }

  async renew(ref: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
    const now = this.#open();
    const queue = this.#settledQueue(ref.name, now);
    const claim = queue?.claims.get(ref.id);
    if (queue === undefined || claim === undefined || claim.fence === null) return { held: false };
    queue.renew(claim, change.ttlMs, now);
    if (change.note !== undefined && change.note !== claim.note) {
      claim.note = change.note;
      // The new note may say that waiting is pointless.
      for (const { waiter } of queue.waiters()) waiter?.wake();
      this.#observers.call(ref.name);
    }
    return { held: true, validForMs: change.ttlMs };
  }

  async release(ref: ClaimRef): Promise<boolean> {
    const now = this.#open();
    const queue = this.#settledQueue(ref.name, now);
    const claim = queue?.claims.get(ref.id);
    if (queue === undefined || claim === undefined) return false;
    queue.remove(claim);
    this.#promote(ref.name, queue, now);
    this.#observers.call(ref.name);
    return true;
  }

  async evict(ref: ClaimRef): Promise<boolean> {
    const isRemoved = await this.release(ref);
    if (isRemoved) this.#evictions.tell(ref.id);
    return isRemoved;
  }

  async watch({ name }: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    this.#open();
    return disposable(this.#observers.add(name, onChange));
  }

  async read(name: string): Promise<readonly StoredClaim[]> {
    const now = this.#open();
    const queue = this.#settledQueue(name, now);
    if (queue === undefined) return [];
    return [...queue.held, ...queue.waiters()].map((claim) => describe(claim, now));
  }

  async *list(prefix: string): AsyncIterable<string> {
    this.#open();
    for (const name of [...this.#queues.keys()]) {
      const queue = name.startsWith(prefix) ? this.#settledQueue(name, this.#open()) : undefined;
      if (queue !== undefined) yield name;
    }
  }

  async diagnose(): Promise<readonly Finding[]> {
    const found = 'the locks are in the memory of this process';
    const means = 'Other processes are not excluded, and locks and fences end with the process.';
    return [{ check: 'memory-process', level: 'ok', found, means, advice: null }];
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#queues.clear();
    this.#observers.clear();
    this.#evictions.clear();
  }

  #open(): number {
    if (this.#closed) throw storeClosed();
    return this.#clock.monotonicMs();
  }

  /** Drops the claims that have run out and grants those that fit now. `undefined` for an empty queue. */
  #settledQueue(name: string, now: number): ClaimQueue | undefined {
    const queue = this.#queues.get(name);
    if (queue === undefined) return undefined;
    const before = queue.claims.size;
    queue.expire(now);
    if (queue.claims.size < before) {
      this.#promote(name, queue, now);
      this.#observers.call(name);
    }
    return queue.isEmpty ? undefined : queue;
  }

  #askAgain(
    request: ClaimRequest,
    queue: ClaimQueue,
    claim: MemoryClaim,
    now: number,
    waiter: Waiter | undefined,
  ): ClaimOutcome {
    if (claim.fence !== null) {
      queue.renew(claim, request.ttlMs, now);
      return { granted: true, fence: claim.fence, validForMs: request.ttlMs };
    }
    claim.ttlMs = request.ttlMs;
    claim.waiter = waiter ?? null;
    queue.keepPosition(claim, now);
    return this.#refuse(request.name, queue, claim, now);
  }

  #enqueue(request: ClaimRequest, queue: ClaimQueue, now: number, waiter: Waiter | undefined): ClaimOutcome {
    if (!request.wait) return this.#refuse(request.name, queue, null, now);
    if (queue.waiting >= this.#queueMax) throw new QueueFullError(request.name, this.#queueMax);
    const claim = queue.add(request);
    claim.waiter = waiter ?? null;
    queue.enqueue(claim, now);
    this.#observers.call(request.name);
    return this.#refuse(request.name, queue, claim, now);
  }

  #refuse(name: string, queue: ClaimQueue, claim: MemoryClaim | null, now: number): ClaimOutcome {
    if (claim !== null) this.#watchExpiry(name, queue, now);
    const askAgainMs = DEFAULTS.queuePositionMs / 3;
    // Only the first waiter asks when a hold runs out; the others only keep their queue positions.
    const untilFreeMs = queue.head === claim ? Math.max(queue.heldUntilMs - now, 1) : askAgainMs;
    return { granted: false, retryAfterMs: Math.min(untilFreeMs, askAgainMs) };
  }

  /** Grants the waiters that fit now, in order. */
  #promote(name: string, queue: ClaimQueue, now: number): void {
    for (let claim = queue.shiftFitting(); claim !== null; claim = queue.shiftFitting()) {
      const fence = this.#nextFence();
      queue.grant(claim, fence, now);
      const { waiter, ttlMs } = claim;
      claim.waiter = null;
      waiter?.wake({ fence, validForMs: ttlMs });
    }
    if (queue.isEmpty) this.#queues.delete(name);
    else if (queue.head !== null) this.#watchExpiry(name, queue, now);
  }

  /** When a timer looks at a lock whose hold may run out while other claims wait. */
  readonly #lookAt = new Map<ClaimQueue, number>();

  #watchExpiry(name: string, queue: ClaimQueue, now: number): void {
    const dueMs = queue.heldUntilMs;
    if (dueMs === Number.POSITIVE_INFINITY || dueMs >= (this.#lookAt.get(queue) ?? Number.POSITIVE_INFINITY))
      return;
    this.#lookAt.set(queue, dueMs);
    this.#clock.startTimer(Math.max(dueMs - now, 1), () => {
      // An earlier timer has taken over from this one.
      if (this.#lookAt.get(queue) !== dueMs) return;
      this.#lookAt.delete(queue);
      if (this.#closed || this.#queues.get(name) !== queue) return;
      const later = this.#clock.monotonicMs();
      if (this.#settledQueue(name, later)?.head != null) this.#watchExpiry(name, queue, later);
    });
  }

  /** Rises over restarts of the process too, as long as the wall clock does not go back. */
  #nextFence(): bigint {
    const fence = BigInt(Math.floor(this.#clock.wallMs() * 1000));
    this.#lastFence = fence > this.#lastFence ? fence : this.#lastFence + 1n;
    return this.#lastFence;
  }
}

function describe(claim: MemoryClaim, now: number): StoredClaim {
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
