import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';

/** So many that the servers have enough to do. */
const AT_ONCE_MAX = 256;
const AT_ONCE_MIN = 8;
/** What is urgent waits behind what was sent before it, so that must be answered within this share of the session's time-out; where it is not, fewer are sent at once. */
const SLOW_SHARE = 1 / 20;

/**
 * What can wait: entering a line, asking again from within it, watching what is ahead. All requests of a session are answered in order, and all answers are worked off in one process, so ten thousand of these at once would
 * keep renewals, releases and signs of life waiting for seconds, and cost the holds. Those do not come this way. Whoever stands in a line already goes before those who want to enter one.
 */
export class Gate {
  readonly #clock: Clock;
  readonly #isOpen: () => boolean;
  readonly #timeoutMs: () => number;
  readonly #standing: (() => void)[] = [];
  readonly #coming: (() => void)[] = [];
  #underWay = 0;
  #atOnce = AT_ONCE_MAX;
  #slowedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, isOpen: () => boolean, timeoutMs: () => number) {
    this.#clock = clock;
    this.#isOpen = isOpen;
    this.#timeoutMs = timeoutMs;
  }

  /** In order among its kind. Rejects with `applied: 'no'` when the connection is gone by the time that it is this one's turn. The work must not come this way again: it would wait for itself. */
  run<T>(work: () => Promise<T>, isStanding: boolean): Promise<T> {
    const queue = isStanding ? this.#standing : this.#coming;
    if (this.#underWay < this.#atOnce && queue.length === 0) return this.#start(work);
    return new Promise<T>((resolve, reject) => {
      queue.push(() => {
        if (this.#isOpen()) this.#start(work).then(resolve, reject);
        else reject(new StoreError('The connection was lost before this was sent', { applied: 'no' }));
      });
    });
  }

  async #start<T>(work: () => Promise<T>): Promise<T> {
    this.#underWay += 1;
    const startedMs = this.#clock.monotonicMs();
    try {
      return await work();
    } finally {
      this.#underWay -= 1;
      this.#adjust(startedMs);
      this.#next();
    }
  }

  /** Half as many when they take too long, once for all that were under way then; one more for each that does not. */
  #adjust(startedMs: number): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - startedMs <= this.#timeoutMs() * SLOW_SHARE) {
      this.#atOnce = Math.min(this.#atOnce + 1, AT_ONCE_MAX);
    } else if (startedMs >= this.#slowedAtMs) {
      this.#slowedAtMs = nowMs;
      this.#atOnce = Math.max(this.#atOnce >> 1, AT_ONCE_MIN);
    }
  }

  #next(): void {
    // One that is not sent at all makes room for the one behind it.
    while (this.#underWay < this.#atOnce) {
      const next = this.#standing.shift() ?? this.#coming.shift();
      if (next === undefined) return;
      next();
    }
  }
}
