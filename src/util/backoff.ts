import type { Clock } from '../clock.ts';
import { onAbort } from './abort.ts';

interface PauseOptions {
  /** Keeps the process alive: a caller awaits the pause. */
  readonly keepAlive?: boolean;
  /** Ends the pause early; there is none if it has aborted before. */
  readonly signal?: AbortSignal;
}

/** Waits. Does not keep the process alive unless `keepAlive` is set. */
export function pause(
  clock: Clock,
  ms: number,
  { keepAlive = false, signal }: PauseOptions = {},
): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
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

/**
 * The next delay of a retry that doubles from `min` to `max`, with full jitter so that many retries
 * spread out.
 */
export function backoff(clock: Clock, attempt: number, bounds: { min: number; max: number }): number {
  const cap = Math.min(bounds.max, bounds.min * 2 ** Math.min(attempt, 30));
  return Math.max(1, Math.ceil(clock.random() * cap));
}

/** Waits for the work, for `ms` at most. Resolves to whether the work has settled. */
export async function settlesWithin(
  clock: Clock,
  work: Promise<unknown>,
  ms: number,
  { keepAlive = false }: { readonly keepAlive?: boolean } = {},
): Promise<boolean> {
  const settled = new AbortController();
  const settle = (): void => settled.abort();
  work.then(settle, settle);
  // Work that has settled already needs no timer.
  await Promise.resolve();
  await pause(clock, ms, { keepAlive, signal: settled.signal });
  return settled.signal.aborted;
}
