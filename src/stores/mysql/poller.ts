import type { Clock, Timer } from '../../clock.ts';
import { between } from '../shared/retry-after.ts';
import type { QueueSubscription, SubscriptionEvents } from '../shared/server-queue-store.ts';
import type { LockRow } from './lock-row.ts';
import type { RowQueue } from './queue.ts';

/**
 * The poll interval of a lock, by the queue position of the first waiter of this store.
 * `bench/mysql/waiting.ts` measures what these polls cost.
 */
const REST_MS = [40, 240] as const;
const REST_BEHIND_MS = 720;
/**
 * A queue that has moved within this time may move again soon. The store that is next polls at
 * this interval then, the store behind it at three times the interval, the next at five, and so on.
 */
const MOVING_US = 300_000;
const MOVING_MS = 24;
/** A poll that would follow the last read sooner than this share of the interval is left out. */
const SKIP_SHARE = 0.25;
const FAILED_MS = { min: 250, max: 1_000 };

/** Finds grants and changes where the server cannot push: polls the locks that this store waits for. */
export class Poller implements QueueSubscription {
  /** A poll that fails is repeated, and finds all that has changed since the last one. */
  readonly isUp = true;
  events: SubscriptionEvents | null = null;
  readonly #clock: Clock;
  readonly #read: (name: string) => Promise<unknown>;
  /** The locks with a waiter in this store, as they were last read. */
  readonly #polled = new Map<string, { readonly row: LockRow; readonly timer: Timer }>();

  /** `read`: reads the lock, reports that the waiters of this store still wait, and calls `onRead`. */
  constructor(clock: Clock, read: (name: string) => Promise<unknown>) {
    this.#clock = clock;
    this.#read = read;
  }

  /** Nothing to do: a read of a lock with a waiter of this store plans the next one. */
  async start(): Promise<void> {}

  /** The store has no waiters by now, so that a poll that is under way plans no other. */
  async close(): Promise<void> {
    for (const { timer } of this.#polled.values()) timer.cancel();
  }

  rowOf(name: string): LockRow | undefined {
    return this.#polled.get(name)?.row;
  }

  readonly isWaiting = (id: string): boolean => this.events?.isWaiting(id) === true;

  /** An operation has read or changed the lock. Waking a claim of another store does nothing. */
  onRead({ row, next }: RowQueue): void {
    const { name, queue } = row;
    const before = this.rowOf(name) ?? row;
    const left = new Set([...queue, ...row.holds].map(({ id }) => id));
    // While this process was stopped, another one may have removed its claims from the queue. Their
    // waiters have to ask, to be in the queue again.
    const removed = before.queue.filter(({ id }) => !left.has(id));
    const woken = hasNewNote(before, row) ? queue : next;
    for (const { id } of [...removed, ...woken]) this.events?.onGranted(id, null);
    const position = queue.findIndex(({ id }) => this.isWaiting(id));
    if (position < 0) this.#forget(name);
    else this.#planNext(row, intervalMs(row, position));
  }

  /** At a multiple of the interval, so that the polls of all locks share a statement. */
  #planNext(row: LockRow, intervalMs: number): void {
    const leftMs = intervalMs - (this.#clock.monotonicMs() % intervalMs);
    this.#plan(row, leftMs < intervalMs * SKIP_SHARE ? leftMs + intervalMs : leftMs);
  }

  #plan(row: LockRow, ms: number): void {
    this.#forget(row.name);
    const timer = this.#clock.startTimer(ms, () => void this.#poll(row));
    this.#polled.set(row.name, { row, timer });
  }

  #forget(name: string): void {
    this.#polled.get(name)?.timer.cancel();
    this.#polled.delete(name);
  }

  async #poll(row: LockRow): Promise<void> {
    try {
      await this.#read(row.name);
    } catch {
      if (this.events?.isWanted() === true) this.#plan(row, between(this.#clock, FAILED_MS));
      else this.#forget(row.name);
    }
  }
}

function hasNewNote(before: LockRow, after: LockRow): boolean {
  const notes = new Map(before.holds.map(({ id, note }) => [id, note]));
  return after.holds.some(({ id, note }) => (notes.get(id) ?? note) !== note);
}

/** While there is no hold, the next one may come at any moment. */
function intervalMs({ nowUs, holds }: LockRow, position: number): number {
  const restMs = REST_MS[position] ?? REST_BEHIND_MS;
  const isResting = holds.length > 0 && holds.every(({ grantedAtUs }) => grantedAtUs < nowUs - MOVING_US);
  return isResting ? restMs : Math.min(MOVING_MS * (2 * position + 1), restMs);
}
