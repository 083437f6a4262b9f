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
 * Checks that no two workers held one lock at the same time, and that fences rise. Intervals come in any
 * order; they are checked once no earlier one can come any more.
 */
export class Ledger {
  readonly problems: string[] = [];
  readonly #locks = new Map<string, LockState>();
  #waiting: Interval[] = [];
  judged = 0;

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
    if (next.fromMs < longest.toMs) {
      const overlapMs = (Math.min(longest.toMs, next.toMs) - next.fromMs).toFixed(2);
      this.problems.push(
        `exclusion: ${next.lock}: worker ${next.worker} (fence ${next.fence}) held beside ` +
          `worker ${longest.worker} (fence ${longest.fence}) for ${overlapMs} ms`,
      );
    }
    if (next.fence <= greatestFence)
      this.problems.push(`fences: ${next.lock}: ${next.fence} was given after ${greatestFence}`);
    else state.greatestFence = next.fence;
    if (next.toMs > longest.toMs) state.longest = next;
  }
}
