import type { Clock } from '../clock.ts';
import { DEFAULTS } from '../options.ts';

/** Both clocks at one instant. */
export interface Instant {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

export function instant(clock: Clock): Instant {
  return { monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() };
}

/**
 * How long ago, by the clock that has moved further. The monotonic clock stops while a host is
 * suspended, and the wall clock can be set back; a lease at the server does neither. To declare a
 * hold lost too early is safe, too late is not.
 */
export function elapsedMs(clock: Clock, since: Instant): number {
  return Math.max(clock.monotonicMs() - since.monotonicMs, clock.wallMs() - since.wallMs);
}

/**
 * How long an answer may be trusted: the time that the store says, less the drift that the two
 * clocks may have in that time.
 */
export function trustedMs(validForMs: number): number {
  const driftMs = validForMs * DEFAULTS.driftShare + DEFAULTS.driftMs;
  // Half of a time that is hardly longer than the drift, so that the result stays positive.
  return validForMs - Math.min(driftMs, validForMs / 2);
}
