import { createLocks } from 'holdfast';
import { mysqlStore } from 'holdfast/mysql';
import mysql from 'mysql2';
import type { ResultSetHeader } from 'mysql2/promise';
import type { MakeContender } from '../postgres/contenders.ts';
import { holdfastOn } from '../shared/contender.ts';

const TTL_MS = 30_000;
/** As many as the store uses for its statements. */
const CONNECTIONS = 2;

const CLAIM = `UPDATE bench_floor
  SET owner = ?, fence = fence + 1, expires_at = NOW(6) + INTERVAL ? MICROSECOND
  WHERE name = ? AND expires_at <= NOW(6)`;
const RELEASE = `UPDATE bench_floor
  SET expires_at = '2000-01-01' WHERE name = ? AND owner = ? AND expires_at > NOW(6)`;

let count = 0;
const owner = (): string => `bench:${process.pid}:abcd#0f1e2d3c4b5a.${(count++).toString(36)}`;

/** The least that a lease with a fence costs: one prepared statement to claim and one to release. */
export const floor: MakeContender = async (url) => {
  const pool = mysql.createPool({ uri: url, connectionLimit: CONNECTIONS }).promise();
  await pool.query(
    `CREATE TABLE IF NOT EXISTS bench_floor (name VARBINARY(512) PRIMARY KEY, owner VARBINARY(512),
      expires_at DATETIME(6) NOT NULL, fence BIGINT NOT NULL)`,
  );
  const names = ['bench-one', ...Array.from({ length: 100 }, (_, task) => `bench-many-${task}`)];
  const rows = names.map((name) => [name, '2000-01-01', 1]);
  await pool.query('INSERT IGNORE INTO bench_floor (name, expires_at, fence) VALUES ?', [rows]);
  return {
    name: 'floor: bare statements',
    async acquire(lock) {
      const own = owner();
      const [{ affectedRows }] = await pool.execute<ResultSetHeader>(CLAIM, [own, TTL_MS * 1_000, lock]);
      if (affectedRows !== 1) throw new Error('held');
      return () => pool.execute(RELEASE, [lock, own]);
    },
    close: () => pool.end(),
  };
};

export const holdfast: MakeContender = async (url) => {
  const pool = mysql.createPool(url);
  const store = mysqlStore(pool, { connections: CONNECTIONS });
  const locks = createLocks(store, { ttlMs: TTL_MS, waitMs: Number.POSITIVE_INFINITY });
  return holdfastOn(locks, () => pool.promise().end());
};
