/** A process of its own that takes a lock: `holder.ts URL NAME stay|leave`. */
import { createLocks } from '../../src/index.ts';
import { openEtcd } from '../../src/stores/etcd/open.ts';

const [url = '', name = '', what = ''] = process.argv.slice(2);
const locks = createLocks(await openEtcd(url), { ttlMs: 2_000 });
const hold = await locks.mutex(name).acquire();
console.log(`held ${hold.fence}`);
// Without anything else to do the process ends, though it holds a lock: renewals do not keep it alive.
if (what === 'stay') setInterval(() => {}, 60_000);
