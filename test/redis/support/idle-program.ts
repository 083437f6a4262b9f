import { register } from 'node:module';
import { openLocks } from '../../../src/index.ts';
import { reportEnd } from './report-end.ts';

// Uses locks by a URL in many ways, closes nothing, and has nothing left to do. `without`: a client
// library that is not installed here. `observes`: `no` leaves out the observer.
const [, , url = '', without = '', observes = 'yes'] = process.argv;
const hooks = `export async function resolve(specifier, context, next) {
  const missing = Object.assign(new Error('left out'), { code: 'ERR_MODULE_NOT_FOUND' });
  if (specifier === ${JSON.stringify(without)}) throw missing;
  return await next(specifier, context);
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);

const name = `idle ${process.pid}`;
const [a, b] = await Promise.all([1, 2].map(() => openLocks(url, { ttlMs: 5_000, waitMs: 20_000 })));
const hold = await a?.mutex(name).acquire();
// The waiter opens a subscription.
const waiting = b?.mutex(name).acquire();
await new Promise((resolve) => setTimeout(resolve, 500));
await hold?.release();
await (await waiting)?.release();
// An observer whose next change is never awaited.
if (observes === 'yes') await b?.election(name).observe()[Symbol.asyncIterator]().next();
// This one is held when the process ends.
await a?.mutex(`${name} held`).acquire();
reportEnd();
