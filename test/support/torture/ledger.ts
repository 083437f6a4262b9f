/**
 * An interval in which one worker held a lock. Times are in ms of the monotonic clock of the host.
 */
export interface Interval {
  readonly lock: string;
  readonly worker: number;
  readonly fence: bigint;
  /** The first and the last moment at which it surely held. */
  readonly fromMs: number;
  toMs: number;
}

/** The state of one lock up to now. */
interface LockState {
  /** The hold with the latest end. */
  longest: Interval;
  greatestFence: bigint;
}

/**
 * Checks that no two workers held one lock at the same time, and that fences rise. Intervals come
 * in any order; they are checked once no earlier one can come any more.
 */
export class Ledger {
  readonly problems: string[] = [];
  /** How often a holder was notified after the next one held, and within `noticeMs`. */
  lateNotices = 0;
  /**
   * For locks of a session, which end with the connection: how long a process may take to learn of
   * a reset. 0 for leases: their holders know the time by themselves.
   */
  readonly #noticeMs: number;
  readonly #locks = new Map<string, LockState>();
  #waiting: Interval[] = [];
  judged = 0;

  constructor(noticeMs = 0) {
    this.#noticeMs = noticeMs;
  }

  add(interval: Interval): void {
    this.#waiting.push(interval);
  }

  /** Judges every interval that began before this moment. */
  judge(beforeMs = Number.POSITIVE_INFINITY): void {
    const due = this.#waiting.filter(({ fromMs }) => fromMs < beforeMs);
    this.#waiting = this.#waiting.filter(({ fromMs }) => fromMs >= beforeMs);
    for (const interval of due.sort((a, b) => a.fromMs - b.fromMs)) this.#judge(interval);
  }

  #judge(next: Interval): void {
    this.judged += 1;
    const state = this.#locks.get(next.lock);
    if (state === undefined) {
      this.#locks.set(next.lock, { longest: next, greatestFence: next.fence });
      return;
    }
    const { longest, greatestFence } = state;
    const overlapMs = Math.min(longest.toMs, next.toMs) - next.fromMs;
    // The holder with the smaller fence should have known that its hold was over.
    const [older, newer] = next.fence < longest.fence ? [next, longest] : [longest, next];
    const lateMs = older.toMs - newer.fromMs;
    const isLateNotice = next.fence !== longest.fence && lateMs >= 0 && lateMs < this.#noticeMs;
    if (isLateNotice) this.lateNotices += 1;
    else if (next.fromMs < longest.toMs)
      this.problems.push(
        `exclusion: ${next.lock}: worker ${next.worker} (fence ${next.fence}) held beside ` +
          `worker ${longest.worker} (fence ${longest.fence}) for ${overlapMs.toFixed(2)} ms`,
      );
    if (next.fence > greatestFence) state.greatestFence = next.fence;
    else if (!isLateNotice)
      this.problems.push(`fences: ${next.lock}: ${next.fence} was given after ${greatestFence}`);
    if (next.toMs > longest.toMs) state.longest = next;
  }
}
