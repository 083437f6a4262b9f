import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Hold, Locks } from '../../../src/index.ts';
import { eventually, later } from './eventually.ts';

/** How long a waiter of `b` takes to hold the lock after `a` releases its hold, and the new hold. */
export async function measureHandoff(
  a: Locks,
  b: Locks,
  name: string,
  hold: Hold,
): Promise<{ tookMs: number; next: Hold }> {
  const pending = later(b.mutex(name).acquire());
  await eventually('the second caller waits', async () => (await a.inspect(name)).waiters.length === 1);
  // After this time the grant arrives as a message, not as the reply to a claim.
  await sleep(100);
  const startedMs = performance.now();
  await hold.release();
  const next = await pending;
  const tookMs = performance.now() - startedMs;
  expect(next.fence).toBeGreaterThan(hold.fence);
  return { tookMs, next };
}
