import { afterAll, describe, expect, it } from 'vitest';
import { createLocks, type LockEvents, type Locks, memoryStore } from '../../src/index.ts';
import { openThreadLocks } from '../../src/thread/open.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';

/** Long, so that a machine that is stalled for a moment neither takes a hold away nor is reported. */
const TTL_MS = 6_000;
const BLOCK_MS = 2_800;
const folder = temporaryFolder();
afterAll(() => folder.remove());

/** Blocks the event loop, as a long computation does. */
function block(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BLOCK_MS);
}

const OPEN: Record<string, () => Promise<Locks>> = {
  inline: async () => createLocks(memoryStore()),
  thread: () => openThreadLocks(`sqlite:${folder.file('locks.db')}`, {}),
};

describe.each(Object.keys(OPEN))('stalled, with renewals %s', (renewal) => {
  it('reports a section that blocks and returns, once, and not the section after it', async () => {
    await using locks = (await OPEN[renewal]?.()) as Locks;
    const events: LockEvents['stalled'][] = [];
    locks.on('stalled', (event) => events.push(event));
    await locks.withLock('blocked', block, { ttlMs: TTL_MS });
    await locks.withLock('quick', () => {}, { ttlMs: TTL_MS });
    // A late beat has run by then.
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(events).toMatchObject([{ name: 'blocked' }]);
    expect(events[0]?.blockedMs).toBeGreaterThan(TTL_MS / 3);
    expect(events[0]?.remainingMs).toBeGreaterThan(0);
  });

  it('reports a once that blocks and returns', async () => {
    await using locks = (await OPEN[renewal]?.()) as Locks;
    const names: string[] = [];
    locks.on('stalled', ({ name }) => names.push(name));
    expect(await locks.once('job', block, { ttlMs: TTL_MS, rememberMs: 1_000 })).toMatchObject({ ran: true });
    expect(names).toEqual(['job']);
  });
});
