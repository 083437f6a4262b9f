import { expect } from 'vitest';
import type { Hold } from '../../src/index.ts';

/** Both sides of a lock that changes hands, on one clock (`performance.now`). */
export interface Witness {
  readonly hold: Hold;
  /** When the first holder's signal fired. */
  lostAt(): number | null;
  /** When the servers removed the first holder's claim, as seen by a third party a little later. */
  removedAt(): number | null;
  /** Resolves when the next in line holds, to the time of it. */
  readonly next: Promise<{ hold: Hold; at: number }>;
}

/** For a loss by time: the holder was told before the servers could give the lock to another. */
export function expectToldInTime(
  seen: Witness,
  next: { hold: Hold; at: number },
  how: 'expired' | 'session',
): void {
  const lostAt = seen.lostAt();
  expect(lostAt, 'the holder was never told').not.toBeNull();
  expect(lostAt ?? 0).toBeLessThanOrEqual(next.at);
  const removedAt = seen.removedAt();
  if (removedAt !== null) expect(lostAt ?? 0).toBeLessThanOrEqual(removedAt);
  expect(seen.hold.signal.reason).toMatchObject({ code: 'HOLD_LOST', how });
  expect(next.hold.fence).toBeGreaterThan(seen.hold.fence);
}
