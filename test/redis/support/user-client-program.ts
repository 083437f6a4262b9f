import { createLocks } from '../../../src/index.ts';
import { redisStore } from '../../../src/stores/redis/index.ts';
import { type Library, openClient } from '../../support/clients/redis-clients.ts';
import { reportEnd } from './report-end.ts';

// Has clients of its own, waits for a lock through one of them, and then closes its clients and nothing else.
const [, , url = '', library = ''] = process.argv;
const [a, b] = await Promise.all([1, 2].map(() => openClient(library as Library, url)));
if (a === undefined || b === undefined) throw new Error('no client');
const [holder, waiter] = [a, b].map(({ client }) => createLocks(redisStore(client), { waitMs: 20_000 }));
const hold = await holder?.mutex('user').acquire();
const waiting = waiter?.mutex('user').acquire();
while ((await holder?.inspect('user'))?.waiters.length === 0)
  await new Promise((resolve) => setTimeout(resolve, 20));
await hold?.release();
await (await waiting)?.release();
a.close();
b.close();
reportEnd();
