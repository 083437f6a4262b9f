import type { Clock } from '../../clock.ts';
import type { ClaimRef, PushedGrant, Waiter } from '../../store/store.ts';
import { KeyedTimers } from './keyed-timers.ts';
import { between, type Range } from './retry-after.ts';

/** A claim that this process waits for. */
export interface Waiting extends ClaimRef {
  ttlMs: number;
  waiter: Waiter;
  /** When the claim was first refused; `null` before that. */
  enteredAtMs: number | null;
}

/** The claims of this process in the queue of one lock, in queue order. */
interface LocalQueue {
  readonly claims: Map<string, Waiting>;
  /** When the hold ahead of them ends unless it is renewed, as far as this process knows. */
  dueAtMs: number;
}

/**
 * The waiters of this process. For each lock, only the first of them asks again when the hold ahead
 * should have ended. The others are woken, or ask only to keep their queue positions. When the
 * first waiter leaves, the next one takes over, and asks soon: the claim that left may have been
 * followed by a waiter of another process that is stopped, and no message tells of that.
 */
export class WakeList {
  readonly #clock: Clock;
  readonly #takeOverMs: Range | undefined;
  /** Includes claims without an answer yet: a pushed grant may arrive before the answer. */
  readonly #byId = new Map<string, Waiting>();
  readonly #queues = new Map<string, LocalQueue>();
  /** By lock: when its first waiter is woken. */
  readonly #due: KeyedTimers;

  /**
   * `takeOverMs`: when a waiter that becomes the first of this process asks, unless the hold ahead
   * ends sooner. Without it, such a waiter asks when that hold ends.
   */
  constructor(clock: Clock, takeOverMs?: Range) {
    this.#clock = clock;
    this.#due = new KeyedTimers(clock);
    this.#takeOverMs = takeOverMs;
  }

  get isEmpty(): boolean {
    return this.#byId.size === 0;
  }

  /** The claim is about to be sent. The last waiter given counts. False when it had one before. */
  add({ name, id, ttlMs }: ClaimRef & { readonly ttlMs: number }, waiter: Waiter): boolean {
    const before = this.#byId.get(id);
    if (before === undefined) this.#byId.set(id, { name, id, ttlMs, waiter, enteredAtMs: null });
    else Object.assign(before, { ttlMs, waiter });
    return before === undefined;
  }

  get(id: string): Waiting | undefined {
    return this.#byId.get(id);
  }

  /**
   * The claim was refused, and is in the queue. Returns how long ago it entered; `null` when a
   * pushed grant has come meanwhile, so that the claim does not wait any more.
   */
  enqueue({ name, id }: ClaimRef): number | null {
    const waiting = this.#byId.get(id);
    if (waiting === undefined) return null;
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      queue = { claims: new Map(), dueAtMs: Number.POSITIVE_INFINITY };
      this.#queues.set(name, queue);
    }
    const nowMs = this.#clock.monotonicMs();
    waiting.enteredAtMs ??= nowMs;
    queue.claims.set(id, waiting);
    return nowMs - waiting.enteredAtMs;
  }

  /** The claim is held, or has left the queue. */
  remove({ name, id }: ClaimRef): void {
    if (!this.#byId.delete(id)) return;
    const queue = this.#queues.get(name);
    if (queue === undefined || !queue.claims.has(id)) return;
    const wasFirst = this.isFirst(name, id);
    queue.claims.delete(id);
    if (queue.claims.size === 0) {
      this.#due.delete(name);
      this.#queues.delete(name);
    } else if (wasFirst) {
      if (this.#takeOverMs !== undefined) {
        const takeOverAtMs = this.#clock.monotonicMs() + between(this.#clock, this.#takeOverMs);
        queue.dueAtMs = Math.min(queue.dueAtMs, takeOverAtMs);
      }
      this.#wakeWhenDue(name, queue);
    }
  }

  hasQueue(name: string): boolean {
    return this.#queues.has(name);
  }

  isFirst(name: string, id: string): boolean {
    const first = this.#first(name);
    return first === undefined || first.id === id;
  }

  /** The hold ahead ends in this many ms unless it is renewed. */
  setDue(name: string, ms: number): void {
    const queue = this.#queues.get(name);
    if (queue !== undefined) queue.dueAtMs = this.#clock.monotonicMs() + ms;
  }

  /** Wakes the first waiter of this process after this time, whatever was set before. */
  wakeFirstIn(name: string, ms: number): void {
    const queue = this.#queues.get(name);
    if (queue === undefined) return;
    this.setDue(name, ms);
    this.#wakeWhenDue(name, queue);
  }

  /** The claim was granted, and need not ask again. */
  push(waiting: Waiting, grant: PushedGrant): void {
    this.setDue(waiting.name, waiting.ttlMs);
    this.remove(waiting);
    waiting.waiter.wake(grant);
  }

  wakeFirst(name: string): void {
    this.#first(name)?.waiter.wake();
  }

  wakeFirsts(): void {
    for (const name of [...this.#queues.keys()]) this.wakeFirst(name);
  }

  /** Messages may have been missed. */
  wakeAll(): void {
    for (const { waiter } of [...this.#byId.values()]) waiter.wake();
  }

  clear(): void {
    this.#due.clear();
    this.#queues.clear();
    this.#byId.clear();
  }

  #first(name: string): Waiting | undefined {
    return this.#queues.get(name)?.claims.values().next().value;
  }

  /**
   * For a waiter that has become the first only after its refusal: its `retryAfterMs` was that of a
   * waiter further back.
   */
  #wakeWhenDue(name: string, queue: LocalQueue): void {
    this.#due.delete(name);
    if (queue.dueAtMs === Number.POSITIVE_INFINITY) return;
    const inMs = Math.max(queue.dueAtMs - this.#clock.monotonicMs(), 0);
    this.#due.set(name, inMs, () => {
      // A waiter that takes over later would be woken at once, for nothing. Without `takeOverMs`, every
      // answer sets the time anew.
      if (this.#takeOverMs !== undefined) queue.dueAtMs = Number.POSITIVE_INFINITY;
      this.wakeFirst(name);
    });
  }
}
