/** A process of its own that takes a lock: `holder.ts URL NAME stay|leave TTL`. */
import { createLocks } from '../../src/index.ts';
import { openEtcd } from '../../src/stores/etcd/open.ts';

const [url = '', name = '', what = '', ttlMs = '2000'] = process.argv.slice(2);
const locks = createLocks(await openEtcd(url), { ttlMs: Number(ttlMs), waitMs: 60_000 });
const hold = await locks.mutex(name).acquire();
console.log(`held ${hold.fence}`);
// Renewals do not keep the process alive, so it ends here although it holds a lock.
if (what === 'stay') setInterval(() => {}, 60_000);
