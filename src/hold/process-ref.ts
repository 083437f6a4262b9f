import type { Clock, Timer } from '../clock.ts';

/** Calls that all end within this time need no long timer. */
const SHORT_MS = 1;
const LONG_MS = 3_600_000;

/**
 * Keeps the process alive while a user's call is pending. Sockets of client libraries and timers of
 * stores may be unref'd: without this, a program that only waits for a lock ends with exit code 0
 * and never runs its function. One timer serves all calls, and calls within one millisecond
 * share its start.
 */
export class ProcessRef {
  readonly #clock: Clock;
  #calls = 0;
  #timer: Timer | null = null;
  #isLong = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  begin(): void {
    this.#calls += 1;
    if (this.#timer === null) this.#start(SHORT_MS);
  }

  end(): void {
    this.#calls -= 1;
    if (this.#calls > 0 || !this.#isLong) return;
    this.#timer?.cancel();
    this.#timer = null;
    this.#isLong = false;
  }

  #start(ms: number): void {
    this.#isLong = ms === LONG_MS;
    this.#timer = this.#clock.startTimer(
      ms,
      () => {
        this.#timer = null;
        this.#isLong = false;
        if (this.#calls > 0) this.#start(LONG_MS);
      },
      { keepAlive: true },
    );
  }
}
