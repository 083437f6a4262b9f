import { type Clock, FOREVER_MS, type Timer } from '../clock.ts';

/**
 * One timer for many due times: it fires at the earliest of them. It may fire too early, when the
 * one that it was set for does not matter any more.
 */
export class EarliestTimer {
  readonly #clock: Clock;
  readonly #onDue: () => void;
  #timer: Timer | null = null;
  #dueAtMs = FOREVER_MS;

  /** `onDue` calls `setBy` again for the times that are left. */
  constructor(clock: Clock, onDue: () => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  /** Fires at this time, by the monotonic clock, unless it is due sooner. */
  setBy(dueAtMs: number): void {
    if (dueAtMs >= this.#dueAtMs) return;
    this.#dueAtMs = dueAtMs;
    this.#timer?.cancel();
    // At least 1 ms: a rest of a fraction would fire again and again at the same instant.
    const delayMs = Math.max(dueAtMs - this.#clock.monotonicMs(), 1);
    this.#timer = this.#clock.startTimer(delayMs, () => {
      this.#dueAtMs = FOREVER_MS;
      this.#onDue();
    });
  }

  cancel(): void {
    this.#timer?.cancel();
  }
}
