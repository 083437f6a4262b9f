import pg from 'pg';
import { createLocks } from '../../../../src/index.ts';
import { postgresAdvisoryStore } from '../../../../src/stores/postgres/advisory/advisory-store.ts';

// Holds a lock until its parent ends it.
const [url, name = ''] = process.argv.slice(2);
const locks = createLocks(postgresAdvisoryStore(new pg.Pool({ connectionString: url })));
const hold = await locks.mutex(name).acquire();
hold.signal.addEventListener('abort', () => process.send?.('lost'));
process.send?.('held');
// A hold alone does not keep a process alive.
setInterval(() => {}, 60_000);
