/** A process of its own that takes a lock: `holder.ts URL NAME stay|leave`. */
import { type HoldLostError, openLocks } from '../../src/index.ts';

const [url = '', name = '', what = ''] = process.argv.slice(2);
const locks = await openLocks(url);
const hold = await locks.mutex(name).acquire();
console.log(`held ${hold.fence}`);
hold.signal.addEventListener('abort', () => console.log(`lost ${(hold.signal.reason as HoldLostError).how}`));
// Without anything else to do the process ends, though it holds a lock: neither renewals nor an idle connection keep it alive.
if (what === 'stay') setInterval(() => {}, 60_000);
