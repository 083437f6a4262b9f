import { createInterface } from 'node:readline';
import { openLocks } from '../../../src/index.ts';

// `holder.ts URL NAME TTL`: waits for the lock, prints when it holds, releases on request, and ends.
const [, , url = '', name = '', ttlMs = ''] = process.argv;
const locks = await openLocks(url, { waitMs: 120_000 });
const pending = locks.mutex(name).acquire({ ttlMs: Number(ttlMs) });
process.stdout.write('waits\n');
const hold = await pending;
process.stdout.write('holds\n');
for await (const _line of createInterface(process.stdin)) break;
await hold.release();
process.exit(0);
