import { checkKeys } from '../../checks.ts';
import { type Clock, systemClock } from '../../clock.ts';
import { ModeMismatchError, QueueFullError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import type { Finding } from '../../store/finding.ts';
import { agree } from '../../store/grant-rule.ts';
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
import { EarliestTimer } from '../../util/earliest-timer.ts';
import { CallbackIndex, Callbacks, disposable } from '../shared/callback-index.ts';
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

/** Waiters are woken in time. They ask again only to keep their queue positions. */
const REFUSED: ClaimOutcome = { granted: false, retryAfterMs: DEFAULTS.queuePositionMs / 3 };

/** From this number of locks on, those whose claims have all run out are looked for. */
const SWEEP_MIN = 1_000;

class MemoryStore implements Store {
  readonly kind = 'memory';
  readonly traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  readonly #clock: Clock;
  readonly #queueMax: number;
  readonly #queues = new Map<string, ClaimQueue>();
  readonly #observers = new CallbackIndex();
  readonly #evictions = new Callbacks<[id: string | null]>();
  readonly onEvicted = this.#evictions.add;
  #lastFence = 0n;
  #sweepAt = SWEEP_MIN;
  #closed = false;

  constructor(clock: Clock, queueMax: number) {
    this.#clock = clock;
    this.#queueMax = queueMax;
  }

  async claim(request: ClaimRequest, _signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    const now = this.#open();
    const { name, id, mode, ttlMs } = request;
    // Counts also for a claim that waits and is granted later.
    if (request.fenceAbove > this.#lastFence) this.#lastFence = request.fenceAbove;
    if (this.#queues.size >= this.#sweepAt) this.#sweep(now);
    const queue = this.#settledQueue(name, now) ?? new ClaimQueue();
    const present = queue.mode;
    if (present !== null && !agree(present, mode)) throw new ModeMismatchError(name, mode, present);
    let claim = queue.get(id);
    if (claim !== undefined) queue.keep(claim, ttlMs, now);
    else {
      claim = queue.add(request, now);
      this.#queues.set(name, queue);
      this.#promote(name, queue, now);
      if (claim.fence === null && (!request.wait || queue.waiting.length > this.#queueMax)) {
        queue.remove(claim);
        if (request.wait) throw new QueueFullError(name, this.#queueMax);
        return REFUSED;
      }
      this.#observers.call(name);
    }
    this.#watchExpiry(name, queue);
    if (claim.fence !== null) return { granted: true, fence: claim.fence, validForMs: ttlMs };
    claim.waiter = waiter ?? null;
    return REFUSED;
  }

  async renew(ref: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
    const now = this.#open();
    const queue = this.#settledQueue(ref.name, now);
    const claim = queue?.get(ref.id);
    if (queue === undefined || claim === undefined || claim.fence === null) return { held: false };
    queue.keep(claim, change.ttlMs, now);
    this.#watchExpiry(ref.name, queue);
    if (change.note !== undefined && change.note !== claim.note) {
      claim.note = change.note;
      // The new note may say that waiting is pointless.
      for (const { waiter } of queue.waiting) waiter?.wake();
      this.#observers.call(ref.name);
    }
    return { held: true, validForMs: change.ttlMs };
  }

  async release(ref: ClaimRef): Promise<boolean> {
    const now = this.#open();
    const queue = this.#settledQueue(ref.name, now);
    const claim = queue?.get(ref.id);
    if (queue === undefined || claim === undefined) return false;
    queue.remove(claim);
    this.#promote(ref.name, queue, now);
    this.#watchExpiry(ref.name, queue);
    this.#observers.call(ref.name);
    return true;
  }

  async evict(ref: ClaimRef): Promise<boolean> {
    const isRemoved = await this.release(ref);
    if (isRemoved) this.#evictions.call(ref.id);
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
    return [...queue.held, ...queue.waiting].map((claim) => describe(claim, now));
  }

  async *list(prefix: string): AsyncIterable<string> {
    this.#open();
    for (const name of [...this.#queues.keys()])
      if (name.startsWith(prefix) && this.#settledQueue(name, this.#open()) !== undefined) yield name;
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
    if (queue?.expire(now) !== true) return queue;
    this.#promote(name, queue, now);
    this.#watchExpiry(name, queue);
    this.#observers.call(name);
    return this.#queues.get(name);
  }

  /** Claims that are never released, as those of rate limits, would stay until someone asks again. */
  #sweep(now: number): void {
    // An observer may claim again at once.
    this.#sweepAt = Number.POSITIVE_INFINITY;
    for (const name of this.#queues.keys()) this.#settledQueue(name, now);
    this.#sweepAt = Math.max(2 * this.#queues.size, SWEEP_MIN);
  }

  /** Grants the waiting claims that fit now, in order. */
  #promote(name: string, queue: ClaimQueue, now: number): void {
    for (let claim = queue.next; claim !== null; claim = queue.next) {
      const fence = this.#nextFence();
      queue.grant(claim, fence, now);
      const { waiter, ttlMs } = claim;
      claim.waiter = null;
      waiter?.wake({ fence, validForMs: ttlMs });
    }
    if (!queue.isEmpty) return;
    this.#queues.delete(name);
    queue.expiry?.cancel();
  }

  /** Waiters learn from a timer when a claim ahead of them has run out. */
  #watchExpiry(name: string, queue: ClaimQueue): void {
    if (queue.waiting.length === 0) return;
    queue.expiry ??= new EarliestTimer(this.#clock, () => {
      const settled = this.#settledQueue(name, this.#clock.monotonicMs());
      if (settled !== undefined) this.#watchExpiry(name, settled);
    });
    queue.expiry.setBy(queue.firstEndMs);
  }

  /** Rises over restarts of the process too, as long as the wall clock does not go back. */
  #nextFence(): bigint {
    const fence = BigInt(Math.floor(this.#clock.wallMs() * 1000));
    this.#lastFence = fence > this.#lastFence ? fence : this.#lastFence + 1n;
    return this.#lastFence;
  }
}

function describe(
  { id, mode, fence, note, grantedAtMs, expiresAtMs }: MemoryClaim,
  now: number,
): StoredClaim {
  const granted = fence !== null;
  const heldForMs = granted ? now - grantedAtMs : null;
  return { id, granted, mode, fence, heldForMs, expiresInMs: expiresAtMs - now, note };
}
