import pg from 'pg';
import { createLocks } from '../../../src/index.ts';
import { postgresAdvisoryStore } from '../../../src/stores/postgres/advisory/advisory-store.ts';

// Opens and closes a store. Then takes a lock, keeps nothing but the lock, and has nothing more to do.
const pool = new pg.Pool({ connectionString: process.argv[2] });
const first = createLocks(postgresAdvisoryStore(pool));
await first.mutex('idle').acquire();
await first.close({ drainMs: 0 });
const locks = createLocks(postgresAdvisoryStore(pool));
await locks.mutex('idle').acquire();
await pool.end();
process.send?.('done');
process.disconnect?.();
