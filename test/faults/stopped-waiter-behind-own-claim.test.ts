import { expect, it, vi } from 'vitest';
import { openLocks } from '../../src/index.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { delayOfSecondWaiter } from '../support/process/stopped-waiter.ts';

// Nearly all of the time is waiting.
vi.setConfig({ maxConcurrency: 8 });

/** A paused waiter may delay the queue by six seconds. The rest is for a busy machine. */
const DELAY_MS = 8_000;
/** Longer than that delay, so that whatever was due when the holder was granted is over. */
const HELD_MS = 7_000;

it.concurrent.each(['mysql', 'postgres', 'redis', 'sqlite'] as const)(
  'a paused waiter delays a process that has waited and held before by six seconds at most: %s',
  async (kind) => {
    await using backend = await startBackend(kind, { nodes: 3, isDurable: true });
    const locks = await openLocks(backend.url, { ttlMs: 120_000, waitMs: 60_000 });
    try {
      expect(await delayOfSecondWaiter(backend.url, locks, 'second', HELD_MS)).toBeLessThan(DELAY_MS);
    } finally {
      await locks.close({ drainMs: 0 });
    }
  },
  120_000,
);
