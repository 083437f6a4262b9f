import { expect } from 'vitest';
import type { Hold } from '../../../src/index.ts';

/** Both holders of a lock during a loss, on one clock (`performance.now`). */
export interface Witness {
  readonly hold: Hold;
  /** When the signal of the first holder aborted. */
  lostAt(): number | null;
  /** When the servers removed the first holder's claim, as seen by an observer a little later. */
  removedAt(): number | null;
  /** Resolves when the next waiter holds, to the time of the grant. */
  readonly next: Promise<{ hold: Hold; at: number }>;
}

/** For a loss by time: the signal aborted before the servers could grant the lock to another. */
export function expectLostInTime(
  seen: Witness,
  next: { hold: Hold; at: number },
  how: 'expired' | 'session',
): void {
  const lostAt = seen.lostAt();
  expect(lostAt, 'the signal never aborted').not.toBeNull();
  expect(lostAt ?? 0).toBeLessThanOrEqual(next.at);
  const removedAt = seen.removedAt();
  if (removedAt !== null) expect(lostAt ?? 0).toBeLessThanOrEqual(removedAt);
  expect(seen.hold.signal.reason).toMatchObject({ code: 'HOLD_LOST', how });
  expect(next.hold.fence).toBeGreaterThan(seen.hold.fence);
}
