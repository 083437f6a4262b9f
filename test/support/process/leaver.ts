import { openLocks } from '../../../src/index.ts';

// Has held, waited, handed over and observed, still holds a lock, closes, and has nothing more to do. Says when the close has let it go on, and how long afterwards it ends.
const [, , url = ''] = process.argv;
const name = `leaver-${process.pid}`;
const open = () => openLocks(url, { ttlMs: 5_000, waitMs: 20_000 });
const [a, b] = [await open(), await open()];
const hold = await a.mutex(name).acquire();
const waiting = b.mutex(name).acquire();
await new Promise((resolve) => setTimeout(resolve, 200));
await hold.release();
await waiting;
// Given up half way: nobody ends it.
await b.election(`${name}-term`).observe()[Symbol.asyncIterator]().next();
await Promise.all([a.close({ drainMs: 0 }), b.close({ drainMs: 0 })]);
const closedMs = performance.now();
process.stdout.write('closed');
process.on('exit', (code) => {
  const isSoon = performance.now() - closedMs < 700;
  process.stdout.write(` and ended ${isSoon ? 'at once' : 'late'} with ${code}\n`);
});
