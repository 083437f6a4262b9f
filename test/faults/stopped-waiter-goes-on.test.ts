import { describe, expect, it, vi } from 'vitest';
import { openLocks } from '../../src/index.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { delayAfterResume } from '../support/process/stopped-waiter.ts';

// Nearly all of the time is waiting.
vi.setConfig({ maxConcurrency: 8 });

/**
 * A waiter asks again by itself after 12 s or more, so that a shorter delay shows that it was woken.
 * Most of it takes milliseconds; the rest is for a busy machine.
 */
const DELAY_MS = 8_000;

describe.concurrent.each(['mysql', 'postgres', 'redis', 'sqlite'] as const)(
  'a waiter in %s that was stopped when its turn came',
  (kind) => {
    it.each(['before it goes on', 'after it went on'] as const)(
      'gets the lock that is released %s, without another wait',
      async (isFreed) => {
        await using backend = await startBackend(kind, { nodes: 3, isDurable: true });
        const locks = await openLocks(backend.url, { waitMs: 60_000 });
        try {
          expect(await delayAfterResume(backend.url, locks, 'passed over', isFreed)).toBeLessThan(DELAY_MS);
        } finally {
          await locks.close({ drainMs: 0 });
        }
      },
      90_000,
    );
  },
);
