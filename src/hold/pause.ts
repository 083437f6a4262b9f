import type { Clock } from '../clock.ts';
import { onAbort } from './abort.ts';

interface PauseOptions {
  /** Somebody awaits it: the process must not end meanwhile. */
  readonly keepAlive?: boolean;
  /** Ends the pause early. */
  readonly signal?: AbortSignal;
}

/** Waits, without keeping the process alive unless told to. */
export function pause(
  clock: Clock,
  ms: number,
  { keepAlive = false, signal }: PauseOptions = {},
): Promise<void> {
  return new Promise((resolve) => {
    const over = (): void => {
      stopListening();
      timer.cancel();
      resolve();
    };
    const timer = clock.startTimer(ms, over, { keepAlive });
    const stopListening = onAbort(signal, over);
  });
}

/** The next delay of a retry that doubles from `min` to `max`, with full jitter so that many retries spread out. */
export function backoff(clock: Clock, attempt: number, bounds: { min: number; max: number }): number {
  const cap = Math.min(bounds.max, bounds.min * 2 ** Math.min(attempt, 30));
  return Math.max(1, Math.ceil(clock.random() * cap));
}
