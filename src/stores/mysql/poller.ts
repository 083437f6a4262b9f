import type { Clock, Timer } from '../../clock.ts';
import { backoff } from '../../util/backoff.ts';
import type { QueueSubscription, SubscriptionEvents } from '../shared/server-queue-store.ts';
import type { LockRow } from './lock-row.ts';
import type { RowQueue } from './queue.ts';

/** A lock with a waiter or an observer in this store. */
interface Watched {
  /** As it was last read. */
  readonly row: LockRow;
  /** The waiters of this store that could be granted then. */
  readonly next: string;
  /** When the lock or the first position of its queue last went to another claim. */
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
const REST_MS = [38, 250, 750] as const;
/**
 * A queue that has moved within this time may move again soon. The store that is next polls every
 * 28 ms then, and each store behind it half as often as the one before it.
 */
const MOVING_MS = 300;
const MOVING_LOOK_MS = 28;
const OBSERVE_MS = 400;
/** Polls that are due within this time share a batch. */
const TOGETHER_MS = 15;
/** The backoff after a failed poll. */
const LOOK_AGAIN_MS = { min: 100, max: 5_000 };

/** Finds grants and changes where the server cannot push: polls the locks that are watched here. */
export class Poller implements QueueSubscription {
  events: SubscriptionEvents | null = null;
  readonly #options: PollerOptions;
  readonly #watched = new Map<string, Watched>();
  readonly #observed = new Set<string>();
  readonly #dueAtMs = new Map<string, number>();
  #timer: Timer | null = null;
  #timerAtMs = Number.POSITIVE_INFINITY;
  #failures = 0;
  #isClosed = false;

  constructor(options: PollerOptions) {
    this.#options = options;
  }

  /** The last poll was answered. */
  get isUp(): boolean {
    return this.#failures === 0;
  }

  /** Each look at a lock with a waiter of this store plans the next one. */
  async start(): Promise<void> {}

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  /** The row of a lock with a waiter or an observer in this store, as it was last read. */
  rowOf(name: string): LockRow | undefined {
    return this.#watched.get(name)?.row;
  }

  /** Resolves when every later change will be noticed, or rejects when the server does not answer. */
  async observe(name: string, isObserved: boolean): Promise<void> {
    if (!isObserved) this.#observed.delete(name);
    else {
      this.#observed.add(name);
      this.#plan(name, OBSERVE_MS);
      await this.#options.look(name);
    }
  }

  /** An operation has read or changed the lock. */
  onLook(queue: RowQueue): void {
    const { row } = queue;
    const { name } = row;
    const own = row.queue.filter(({ tag }) => tag === this.#options.tag).map(({ id }) => id);
    const before = this.#watched.get(name);
    const next = queue.next.filter(({ tag }) => tag === this.#options.tag).map(({ id }) => id);
    const isChanged = before !== undefined && before.row.version !== row.version;
    const woken = new Set(isChanged || before?.next !== next.join() ? next : []);
    if (isChanged) {
      if (this.#observed.has(name)) this.events?.onChanged(name, true);
      for (const id of hasNewNote(before.row, row) ? own : this.#withoutPosition(before.row, row))
        woken.add(id);
    }
    for (const id of woken) this.events?.onGranted(name, id, null);
    if (own.length === 0 && !this.#observed.has(name)) {
      this.#watched.delete(name);
      this.#dueAtMs.delete(name);
      return;
    }
    const hasMoved = isChanged && frontOf(before.row) !== frontOf(row);
    const nowMs = this.#options.clock.monotonicMs();
    const movedAtMs = hasMoved ? nowMs : (before?.movedAtMs ?? Number.NEGATIVE_INFINITY);
    this.#watched.set(name, { row, next: next.join(), movedAtMs });
    this.#plan(name, this.#lookMs(row, nowMs - movedAtMs < MOVING_MS));
  }

  /**
   * While this process stood still, another one has removed these claims from the queue. Their
   * waiters have to ask, to be in the queue again.
   */
  #withoutPosition(before: LockRow, after: LockRow): string[] {
    const left = new Set([...after.queue, ...after.holds].map(({ id }) => id));
    const lost = before.queue.filter(({ id, tag }) => tag === this.#options.tag && !left.has(id));
    return lost.map(({ id }) => id);
  }

  #lookMs({ queue }: LockRow, isMoving: boolean): number {
    const first = queue.findIndex(({ tag }) => tag === this.#options.tag);
    if (first < 0) return OBSERVE_MS;
    const storesAhead = new Set(queue.slice(0, first).map(({ tag }) => tag)).size;
    const restMs = REST_MS[Math.min(storesAhead, REST_MS.length - 1)] ?? OBSERVE_MS;
    return isMoving ? Math.min(MOVING_LOOK_MS * 2 ** storesAhead, restMs) : restMs;
  }

  #plan(name: string, ms: number): void {
    const dueAtMs = this.#options.clock.monotonicMs() + ms;
    this.#dueAtMs.set(name, dueAtMs);
    if (dueAtMs < this.#timerAtMs) this.#startTimer(dueAtMs);
  }

  #startTimer(atMs: number): void {
    this.#timer?.cancel();
    this.#timerAtMs = atMs;
    if (atMs === Number.POSITIVE_INFINITY || this.#isClosed) return;
    const { clock } = this.#options;
    this.#timer = clock.startTimer(Math.max(atMs - clock.monotonicMs(), 1), () => void this.#look());
  }

  async #look(): Promise<void> {
    const { clock, look } = this.#options;
    const untilMs = clock.monotonicMs() + TOGETHER_MS;
    const due = [...this.#dueAtMs].filter(([, dueAtMs]) => dueAtMs <= untilMs).map(([name]) => name);
    for (const name of due) this.#dueAtMs.delete(name);
    this.#startTimer(Math.min(...this.#dueAtMs.values()));
    const wasUp = this.isUp;
    try {
      await Promise.all(due.map(look));
      this.#failures = 0;
    } catch {
      // Nobody waits any more: the outage may last.
      if (this.events?.isWanted() !== true) return this.#forgetAll();
      const againMs = backoff(clock, this.#failures++, LOOK_AGAIN_MS);
      for (const name of due) this.#plan(name, againMs);
    }
    if (this.isUp !== wasUp && !this.#isClosed) this.events?.onGap();
  }

  #forgetAll(): void {
    this.#watched.clear();
    this.#dueAtMs.clear();
    this.#failures = 0;
  }
}

function frontOf({ holds, queue }: LockRow): string {
  return `${holds[0]?.id} ${queue[0]?.id}`;
}

function hasNewNote(before: LockRow, after: LockRow): boolean {
  const notes = new Map(before.holds.map(({ id, note }) => [id, note]));
  return after.holds.some(({ id, note }) => (notes.get(id) ?? note) !== note);
}
