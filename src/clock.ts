import { randomInt } from 'node:crypto';

/**
 * Time, timers and randomness: the one seam through which the core reaches them, so that all of it can run in a simulation.
 * `virtualClock()` of `holdfast/testing` is the other implementation.
 */
export interface Clock {
  /** Milliseconds from an arbitrary start; never goes back. May stand still while the host sleeps. */
  monotonicMs(): number;
  /** Milliseconds since 1970; may jump both ways. */
  wallMs(): number;
  /** From 0 up to, but not including, 1. */
  random(): number;
  /** Calls `fire` once, not before `ms` have passed. Only a timer that is told to keeps the process alive. */
  startTimer(ms: number, fire: () => void, options?: { keepAlive?: boolean }): Timer;
}

/** A timer that was started. Cancelling it late, or twice, does nothing. */
export interface Timer {
  cancel(): void;
}

/** Node.js fires at once when asked to wait any longer than this. */
const TIMEOUT_MAX_MS = 2 ** 31 - 1;

class SystemTimer implements Timer {
  #timeout: NodeJS.Timeout;

  constructor(ms: number, fire: () => void, keepAlive: boolean) {
    this.#timeout = this.#start(ms, fire, keepAlive);
  }

  cancel(): void {
    clearTimeout(this.#timeout);
  }

  #start(ms: number, fire: () => void, keepAlive: boolean): NodeJS.Timeout {
    const next =
      ms <= TIMEOUT_MAX_MS
        ? fire
        : () => {
            this.#timeout = this.#start(ms - TIMEOUT_MAX_MS, fire, keepAlive);
          };
    const timeout = setTimeout(next, Math.min(Math.max(Math.ceil(ms), 0), TIMEOUT_MAX_MS));
    return keepAlive ? timeout : timeout.unref();
  }
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  random: () => randomInt(2 ** 47) / 2 ** 47,
  startTimer: (ms, fire, options) => new SystemTimer(ms, fire, options?.keepAlive === true),
};
