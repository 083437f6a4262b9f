import pg from 'pg';
import type { MakeContender } from './contenders.ts';

const LOCK = { name: 'floor_wait', text: 'SELECT pg_advisory_lock(hashtextextended($1, 0))' };
const UNLOCK = { name: 'floor_unlock', text: 'SELECT pg_advisory_unlock(hashtextextended($1, 0))' };
/** More than any bench has waiters: each blocks a connection. */
const CONNECTIONS = 55;

/** The floor of waiting: the server blocks the statement and its connection until the lock is free. */
export const blocking: MakeContender = async (url) => {
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS });
  return {
    name: 'floor: pg_advisory_lock',
    async acquire(lock) {
      const client = await pool.connect();
      await client.query({ ...LOCK, values: [lock] });
      return async () => {
        await client.query({ ...UNLOCK, values: [lock] });
        client.release();
      };
    },
    close: () => pool.end(),
  };
};
