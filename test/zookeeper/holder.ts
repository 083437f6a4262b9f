/** A process of its own that takes a lock: `holder.ts URL NAME stay|leave`. */
import { type HoldLostError, openLocks } from '../../src/index.ts';

const [url = '', name = '', what = ''] = process.argv.slice(2);
const locks = await openLocks(url);
const hold = await locks.mutex(name).acquire();
// First of all: who hears that it is held may stop this process at once.
hold.signal.addEventListener('abort', () => console.log(`lost ${(hold.signal.reason as HoldLostError).how}`));
console.log(`held ${hold.fence}`);
// Without anything else to do the process ends, though it holds a lock: neither renewals nor an idle connection keep it alive.
if (what === 'stay') setInterval(() => {}, 60_000);
