import type { Clock, Timer } from '../../clock.ts';
import { between } from '../shared/retry-after.ts';
import type { QueueSubscription, SubscriptionEvents } from '../shared/server-queue-store.ts';
import type { LockRow, Queued } from './lock-row.ts';
import type { RowQueue } from './queue.ts';

/** A lock with a waiter or an observer in this store. */
interface Watched {
  /** As it was last read. */
  readonly row: LockRow;
  /** The waiters of this store that could be granted then. */
  readonly next: string;
  /** When the lock, or the first position of its queue, last went to another claim. */
  readonly movedAtMs: number;
}

export interface PollerOptions {
  readonly clock: Clock;
  /** Of this store: see `Reader`. */
  readonly tag: string;
  /** Reads the lock, reports that this store is alive, and calls `onLook`. */
  look(name: string): Promise<unknown>;
}

/**
 * The poll interval of a lock: for the store whose waiter is next, for the store behind it, and for
 * all others. `bench/mysql/waiting.ts` measures what these polls cost.
 */
const REST_MS = [40, 240, 720] as const;
/**
 * A queue that has moved within this time may move again soon. The store that is next polls at
 * this interval then, the store behind it at three times the interval, the next at five, and so on.
 */
const MOVING_MS = 300;
const MOVING_LOOK_MS = 24;
const OBSERVE_MS = 400;
/** A poll that would follow the last look sooner than this share of the interval is left out. */
const SKIP_SHARE = 0.25;
const FAILED_MS = { min: 250, max: 1_000 };

/** Finds grants and changes where the server cannot push: polls the locks that are watched here. */
export class Poller implements QueueSubscription {
  events: SubscriptionEvents | null = null;
  readonly #options: PollerOptions;
  readonly #watched = new Map<string, Watched>();
  readonly #observed = new Set<string>();
  readonly #timers = new Map<string, Timer>();
  #isUp = true;
  #isClosed = false;

  constructor(options: PollerOptions) {
    this.#options = options;
  }

  /** The last poll was answered. */
  get isUp(): boolean {
    return this.#isUp;
  }

  /** Nothing to do: a look at a lock with a waiter of this store plans the next one. */
  async start(): Promise<void> {}

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of this.#timers.values()) timer.cancel();
  }

  /** The row of a lock with a waiter or an observer in this store, as it was last read. */
  rowOf(name: string): LockRow | undefined {
    return this.#watched.get(name)?.row;
  }

  /** Resolves when every later change will be noticed. */
  async observe(name: string, isObserved: boolean): Promise<void> {
    if (!isObserved) this.#observed.delete(name);
    else {
      this.#observed.add(name);
      await this.#look(name);
    }
  }

  /** An operation has read or changed the lock. */
  onLook(queue: RowQueue): void {
    const { row } = queue;
    const { name } = row;
    const before = this.#watched.get(name);
    const isChanged = before !== undefined && before.row.version !== row.version;
    const own = this.#ownIn(row.queue);
    const next = this.#ownIn(queue.next);
    // One wake-up for each version is enough.
    if (isChanged || before?.next !== next.join()) this.#wake(name, next);
    if (isChanged) {
      this.#wake(name, hasNewNote(before.row, row) ? own : this.#withoutPosition(before.row, row));
      if (this.#observed.has(name)) this.events?.onChanged(name, true);
    }
    if (own.length === 0 && !this.#observed.has(name)) {
      this.#forget(name);
      return;
    }
    const nowMs = this.#options.clock.monotonicMs();
    const hasMoved = isChanged && frontOf(before.row) !== frontOf(row);
    const movedAtMs = hasMoved ? nowMs : (before?.movedAtMs ?? Number.NEGATIVE_INFINITY);
    this.#watched.set(name, { row, next: next.join(), movedAtMs });
    this.#planNext(name, this.#intervalMs(row, nowMs - movedAtMs < MOVING_MS));
  }

  #ownIn(queue: readonly Queued[]): string[] {
    return queue.filter(({ tag }) => tag === this.#options.tag).map(({ id }) => id);
  }

  #wake(name: string, ids: readonly string[]): void {
    for (const id of ids) this.events?.onGranted(name, id, null);
  }

  /**
   * While this process stood still, another one has removed these claims from the queue. Their
   * waiters have to ask, to be in the queue again.
   */
  #withoutPosition(before: LockRow, after: LockRow): string[] {
    const left = new Set([...after.queue, ...after.holds].map(({ id }) => id));
    return this.#ownIn(before.queue).filter((id) => !left.has(id));
  }

  #intervalMs({ queue }: LockRow, isMoving: boolean): number {
    const first = queue.findIndex(({ tag }) => tag === this.#options.tag);
    if (first < 0) return OBSERVE_MS;
    const storesAhead = new Set(queue.slice(0, first).map(({ tag }) => tag)).size;
    const restMs = REST_MS[Math.min(storesAhead, REST_MS.length - 1)] ?? OBSERVE_MS;
    return isMoving ? Math.min(MOVING_LOOK_MS * (2 * storesAhead + 1), restMs) : restMs;
  }

  /** At a multiple of the interval, so that the polls of all locks share a statement. */
  #planNext(name: string, intervalMs: number): void {
    const leftMs = intervalMs - (this.#options.clock.monotonicMs() % intervalMs);
    this.#plan(name, leftMs < intervalMs * SKIP_SHARE ? leftMs + intervalMs : leftMs);
  }

  #plan(name: string, ms: number): void {
    this.#timers.get(name)?.cancel();
    if (this.#isClosed) return;
    this.#timers.set(
      name,
      this.#options.clock.startTimer(ms, () => void this.#look(name)),
    );
  }

  #forget(name: string): void {
    this.#watched.delete(name);
    this.#timers.get(name)?.cancel();
    this.#timers.delete(name);
  }

  async #look(name: string): Promise<void> {
    const { clock, look } = this.#options;
    try {
      await look(name);
      this.#setUp(true);
    } catch {
      const isWanted = this.events?.isWanted() === true;
      if (isWanted) this.#plan(name, between(clock, FAILED_MS));
      else this.#forget(name);
      this.#setUp(!isWanted);
    }
  }

  #setUp(isUp: boolean): void {
    if (this.#isUp === isUp) return;
    this.#isUp = isUp;
    this.events?.onGap();
  }
}

function frontOf({ holds, queue }: LockRow): string {
  return `${holds[0]?.id} ${queue[0]?.id}`;
}

function hasNewNote(before: LockRow, after: LockRow): boolean {
  const notes = new Map(before.holds.map(({ id, note }) => [id, note]));
  return after.holds.some(({ id, note }) => (notes.get(id) ?? note) !== note);
}
