import { writeSync } from 'node:fs';
import { type Hold, type Locks, openLocks } from '../../../src/index.ts';

/**
 * Holds locks and blocks its event loop. Arguments: the URL, the TTL, for how long it blocks, then
 * the locks: `thread:NAME` or `inline:NAME`. The lock `capped` has the TTL as its `maxHoldMs`. Says
 * `holds`, and afterwards what the first statements after the block have found for each lock. Of a
 * lock `untouched…` only the signal that was read before is looked at, on the next turn.
 */
const [, , url = '', ttl = '', blockMs = '', ...names] = process.argv;
const say = (message: object): void => void writeSync(1, `${JSON.stringify(message)}\n`);

const locks = new Map<string, Locks>();
const stalled = new Map<string, number>();
const holds: Hold[] = [];
const signals: AbortSignal[] = [];
for (const renewal of new Set(names.map((each) => each.split(':')[0] as 'inline' | 'thread'))) {
  const opened = await openLocks(url, { renewal });
  opened.on('stalled', (event) => stalled.set(event.name, event.blockedMs));
  locks.set(renewal, opened);
}
for (const each of names) {
  const [renewal = '', name = ''] = each.split(':');
  const ttlMs = Number(ttl);
  const maxHoldMs = name === 'capped' ? ttlMs : undefined;
  const hold = await locks.get(renewal)?.mutex(name).acquire({ ttlMs, maxHoldMs });
  if (hold === undefined) throw new Error('no hold');
  holds.push(hold);
  signals.push(hold.signal);
}
say({ holds: names });

// Sleeps without using the processor, and without a turn of the event loop.
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(blockMs));

const found = holds.map((hold, n) => {
  if (names[n]?.includes(':untouched')) return {};
  let lost: string | null = null;
  try {
    hold.assertHeld();
  } catch (error) {
    lost = (error as { how: string }).how;
  }
  return {
    lost,
    remainingMs: hold.remainingMs,
    isAborted: hold.signal.aborted,
    fence: hold.fence.toString(),
  };
});
// One turn of the event loop: this timer may run before other late ones, and `setImmediate` after
// them.
await new Promise((resolve) => setTimeout(() => setImmediate(resolve)));
const reports = found.map((each, n) => {
  const name = names[n]?.split(':')[1] ?? '';
  return [name, { ...each, isAbortedLater: signals[n]?.aborted, stalledMs: stalled.get(name) ?? 0 }];
});
say({ found: Object.fromEntries(reports), atMs: Date.now() });
await Promise.all([...locks.values()].map((each) => each.releaseAll()));
await Promise.all([...locks.values()].map((each) => each.close()));
