import type { Clock } from '../clock.ts';

/** Waits without keeping the process alive: for retries in the background. */
export function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.startTimer(ms, resolve);
  });
}

/** The next delay of a retry that doubles from `min` to `max`, with full jitter so that many retries spread out. */
export function backoff(clock: Clock, attempt: number, bounds: { min: number; max: number }): number {
  const cap = Math.min(bounds.max, bounds.min * 2 ** Math.min(attempt, 30));
  return Math.max(1, Math.ceil(clock.random() * cap));
}
