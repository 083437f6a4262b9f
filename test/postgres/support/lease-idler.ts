import { createLocks } from '../../../src/index.ts';
import { postgresLeaseStore } from '../../../src/stores/postgres/index.ts';
import { makePool, type PgLibrary } from '../../support/clients/postgres-pools.ts';

// Holds a lock that is renewed, has waited for another lock, closes nothing, and has nothing more to do.
const [, , url = '', library = ''] = process.argv;
const [a, b] = [0, 1].map(() => createLocks(postgresLeaseStore(makePool(library as PgLibrary, url))));
const hold = await a?.mutex('idle').acquire();
const waiting = b?.mutex('idle').acquire();
await new Promise((resolve) => setTimeout(resolve, 300));
await hold?.release();
await waiting;
process.stdout.write('done\n');
