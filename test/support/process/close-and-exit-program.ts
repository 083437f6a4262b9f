import { openLocks } from '../../../src/index.ts';

// Acquires, waits, releases and observes, still holds a lock, closes, and has nothing more to do.
// Prints when `close` has resolved, and how long afterwards the process ends.
const [, , url = ''] = process.argv;
const name = `leaver-${process.pid}`;
const open = () => openLocks(url, { ttlMs: 5_000, waitMs: 20_000, connect: false });
const [a, b] = [await open(), await open()];
const hold = await a.mutex(name).acquire();
const waiting = b.mutex(name).acquire();
await new Promise((resolve) => setTimeout(resolve, 200));
await hold.release();
await waiting;
// An observer that is never ended.
await b.election(`${name}-term`).observe()[Symbol.asyncIterator]().next();
await Promise.all([a.close({ drainMs: 0 }), b.close({ drainMs: 0 })]);
const closedMs = performance.now();
process.stdout.write('closed');
process.on('exit', (code) => {
  const isSoon = performance.now() - closedMs < 700;
  process.stdout.write(` and ended ${isSoon ? 'at once' : 'late'} with ${code}\n`);
});
