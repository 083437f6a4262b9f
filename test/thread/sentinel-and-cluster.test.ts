import { expect, it } from 'vitest';
import { openLocks } from '../../src/index.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { startBlocked } from './support/blocked-process.ts';

const TTL_MS = 2_000;
const BLOCK_MS = 5 * TTL_MS;

// What else happens to such a section is checked in blocked.test.ts.
it.each(['sentinel', 'cluster'] as const)(
  '%s: a section that blocks the event loop keeps its lock with renewals in a thread, and loses it without',
  async (kind) => {
    await using backend = await startBackend(kind);
    await using locks = await openLocks(backend.url, { waitMs: 50_000 });
    const times = { ttlMs: TTL_MS, blockMs: BLOCK_MS };
    const { report, exitCode } = await startBlocked(backend.url, times, ['thread:kept', 'inline:lost']);
    const keptUntilMs = locks.withLock('kept', () => Date.now());
    const { found, atMs } = await report;
    expect(found.kept).toMatchObject({ lost: null, isAborted: false, isAbortedLater: false });
    expect(found.lost).toMatchObject({ lost: 'expired', isAborted: true });
    expect(await keptUntilMs, 'granted after the block only').toBeGreaterThanOrEqual(atMs);
    expect(await exitCode).toBe(0);
  },
);
