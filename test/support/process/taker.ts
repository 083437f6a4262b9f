import { type HoldLostError, openLocks } from '../../../src/index.ts';

// `taker.ts URL NAME stay|leave [TTL]`: takes the lock, prints `held FENCE`, and `lost HOW` on a loss.
const [url = '', name = '', what = '', ttlMs] = process.argv.slice(2);
const ttl = ttlMs === undefined ? {} : { ttlMs: Number(ttlMs) };
const locks = await openLocks(url, { waitMs: 60_000, ...ttl });
const hold = await locks.mutex(name).acquire();
// This listener comes first, because the test may pause the process as soon as it holds the lock.
hold.signal.addEventListener('abort', () => console.log(`lost ${(hold.signal.reason as HoldLostError).how}`));
console.log(`held ${hold.fence}`);
// Neither renewals nor an idle connection keep the process alive, so it ends here although it holds
// a lock.
if (what === 'stay') setInterval(() => {}, 60_000);
