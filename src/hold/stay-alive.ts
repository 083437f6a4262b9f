import type { Clock, Timer } from '../clock.ts';

const HOUR_MS = 3_600_000;

/**
 * Keeps the process alive while anybody waits to hold or to lead: they have work to do even when nothing else runs. One timer for all of
 * them.
 */
export class StayAlive {
  readonly #clock: Clock;
  #waiting = 0;
  #timer: Timer | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  begin(): void {
    this.#waiting += 1;
    if (this.#timer === null) this.#start();
  }

  end(): void {
    this.#waiting -= 1;
    if (this.#waiting > 0) return;
    this.#timer?.cancel();
    this.#timer = null;
  }

  #start(): void {
    this.#timer = this.#clock.startTimer(HOUR_MS, () => this.#start(), { keepAlive: true });
  }
}
