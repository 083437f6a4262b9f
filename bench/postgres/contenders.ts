import { Verrou } from '@verrou/core';
import { kyselyStore } from '@verrou/core/drivers/kysely';
import { createLocks } from 'holdfast';
import { postgresLeaseStore } from 'holdfast/postgres';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { type Contender, holdfastOn } from '../shared/contender.ts';

export type MakeContender = (url: string) => Promise<Contender>;

export const TTL_MS = 30_000;
/** As many as the store uses for its statements. */
const CONNECTIONS = 2;

const CLAIM = {
  name: 'floor_claim',
  text: `INSERT INTO bench_floor (name, owner, expires_at, fence)
    VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond', 1)
    ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at,
      fence = bench_floor.fence + 1
    WHERE bench_floor.expires_at <= clock_timestamp() RETURNING fence`,
};
const RELEASE = {
  name: 'floor_release',
  text: `UPDATE bench_floor SET expires_at = '-infinity'
    WHERE name = $1 AND owner = $2 AND expires_at > clock_timestamp()`,
};

let count = 0;
const owner = (): string => `bench:${process.pid}:abcd#0f1e2d3c4b5a.${(count++).toString(36)}`;

/** The least that a lease with a fence costs: one prepared statement to take it and one to give it back. */
export const floor: MakeContender = async (url) => {
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS });
  await pool.query(
    `CREATE TABLE IF NOT EXISTS bench_floor
      (name text PRIMARY KEY, owner text, expires_at timestamptz, fence bigint) WITH (fillfactor = 70)`,
  );
  return {
    name: 'floor: bare statements',
    async acquire(lock) {
      const own = owner();
      const { rows } = await pool.query({ ...CLAIM, values: [lock, own, TTL_MS] });
      if (rows.length === 0) throw new Error('held');
      return () => pool.query({ ...RELEASE, values: [lock, own] });
    },
    close: () => pool.end(),
  };
};

export const holdfast: MakeContender = async (url) => {
  const pool = new pg.Pool({ connectionString: url });
  const store = postgresLeaseStore(pool, { connections: CONNECTIONS });
  const locks = createLocks(store, { ttlMs: TTL_MS, waitMs: Number.POSITIVE_INFINITY });
  return holdfastOn(locks, () => pool.end());
};

export const verrou: MakeContender = async (url) => {
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS });
  const connection = new Kysely<never>({ dialect: new PostgresDialect({ pool }) });
  const made = new Verrou({
    default: 'postgres',
    stores: { postgres: { driver: kyselyStore({ connection, tableName: 'bench_verrou' } as never) } },
  });
  return {
    name: '@verrou/core with Kysely',
    async acquire(lock) {
      const held = made.createLock(lock, TTL_MS);
      await held.acquire();
      return () => held.release();
    },
    close: () => connection.destroy(),
  };
};
