// Planted: an advisory lock is a session's, and the pool gives one session to two callers. server: postgres
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

export default async ({ url }) => {
  const pool = new pg.Pool({ connectionString: url.split('?')[0], max: 1, connectionTimeoutMillis: 2_000 });
  pool.on('error', () => {});
  const ask = async (what, lock) =>
    (await pool.query(`SELECT ${what}(hashtextextended($1, 0)) AS done`, [lock])).rows[0]?.done === true;
  return {
    name: 'advisory lock on a pooled connection',
    async acquire(lock) {
      for (let tries = 0; tries < 100; tries += 1) {
        if (await ask('pg_try_advisory_lock', lock).catch(() => false)) {
          let isOver = false;
          return {
            isHeld: () => !isOver,
            release: async () => {
              isOver = true;
              await ask('pg_advisory_unlock', lock);
            },
          };
        }
        await sleep(50);
      }
      return null;
    },
    close: () => pool.end(),
  };
};
