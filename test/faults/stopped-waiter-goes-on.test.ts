import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Locks, openLocks } from '../../src/index.ts';
import type { Backend } from '../../src/torture/backends/backend.ts';
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
    let backend: Backend;
    let locks: Locks;
    beforeAll(async () => {
      backend = await startBackend(kind, { isDurable: true });
      // On a busy machine the first command, which makes the tables, takes long.
      locks = await openLocks(backend.url, { waitMs: 60_000, commandMs: 30_000 });
    }, 60_000);
    afterAll(async () => {
      await locks?.close({ drainMs: 0 });
      await backend?.stop();
    });

    it.each(['before it goes on', 'after it went on'] as const)(
      'gets the lock that is released %s, without another wait',
      async (isFreed) => {
        expect(await delayAfterResume(backend.url, locks, isFreed, isFreed)).toBeLessThan(DELAY_MS);
      },
      90_000,
    );
  },
);
