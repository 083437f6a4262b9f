import type { Clock, Timer } from '../../clock.ts';
import { UNCONFIRMED_MS } from './unconfirmed-grants.ts';

/** After this time, a grant that was not confirmed has certainly ended. */
export const HANDOFF_CHECK_MS = UNCONFIRMED_MS + 100;

/**
 * Checks the locks that a release of this process has handed to a waiter. The server cannot always
 * tell that a waiter is dead: a stopped process, or a host without power, still seems to be
 * subscribed. The releasing process then hands the lock to the next waiter.
 */
export class HandoffCheck {
  readonly #clock: Clock;
  readonly #passOn: (name: string) => Promise<unknown>;
  readonly #timers = new Map<string, Timer>();

  /** `passOn` grants every claim that fits, if the lock is free. */
  constructor(clock: Clock, passOn: (name: string) => Promise<unknown>) {
    this.#clock = clock;
    this.#passOn = passOn;
  }

  get isEmpty(): boolean {
    return this.#timers.size === 0;
  }

  watch(name: string): void {
    // One check after a burst of handoffs is enough, so only the last handoff starts a timer.
    this.#timers.get(name)?.cancel();
    const timer = this.#clock.startTimer(HANDOFF_CHECK_MS, () => {
      this.#timers.delete(name);
      this.#passOn(name).catch(() => {});
    });
    this.#timers.set(name, timer);
  }

  clear(): void {
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
  }
}
