import { randomInt } from 'node:crypto';

/**
 * Time, timers and randomness: the one seam through which the core reaches them, so that all of it
 * can run in a simulation. `virtualClock()` of `holdfast/testing` is the other implementation.
 */
export interface Clock {
  /** Milliseconds from an arbitrary start; never goes back. May stand still while the host sleeps. */
  monotonicMs(): number;
  /** Milliseconds since 1970; may jump both ways. */
  wallMs(): number;
  /** From 0 up to, but not including, 1. */
  random(): number;
  /**
   * Calls `fire` once, not before `ms` (or 24 days) have passed. Only a timer with
   * `keepAlive` keeps the process alive.
   */
  startTimer(ms: number, fire: () => void, options?: { keepAlive?: boolean }): Timer;
}

/** A time that never comes. */
export const FOREVER_MS = Number.POSITIVE_INFINITY;

/** A timer that was started. Cancelling it late, or twice, does nothing. */
export interface Timer {
  cancel(): void;
}

/**
 * Node.js fires at once when a delay is longer than this, 24 days. A `once` may be remembered for
 * longer: a longer wait reads the clock when the timer fires, and starts another timer.
 */
const TIMEOUT_MAX_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  random: () => randomInt(2 ** 47) / 2 ** 47,
  startTimer(ms, fire, options) {
    const timeout = setTimeout(fire, Math.min(Math.ceil(ms), TIMEOUT_MAX_MS));
    if (options?.keepAlive !== true) timeout.unref();
    return { cancel: () => clearTimeout(timeout) };
  },
};

/** The same, with a monotonic clock on which all threads of the process agree. */
export const threadClock: Clock = {
  ...systemClock,
  monotonicMs: () => Number(process.hrtime.bigint()) / 1e6,
};
