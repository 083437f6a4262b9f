/** A process of its own that takes a lock: `holder.ts URL NAME stay|leave`. */
import { type HoldLostError, openLocks } from '../../src/index.ts';

const [url = '', name = '', what = ''] = process.argv.slice(2);
const locks = await openLocks(url);
const hold = await locks.mutex(name).acquire();
// This listener comes first, because the test may stop the process as soon as it holds the lock.
hold.signal.addEventListener('abort', () => console.log(`lost ${(hold.signal.reason as HoldLostError).how}`));
console.log(`held ${hold.fence}`);
// Neither renewals nor an idle connection keep the process alive, so it ends here although it holds
// a lock.
if (what === 'stay') setInterval(() => {}, 60_000);
