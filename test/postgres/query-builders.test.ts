import { type SQL, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresFenceGate } from '../../src/fence/index.ts';
import type { QueryRunner } from '../../src/stores/postgres/queryable.ts';
import { Schema } from '../../src/stores/postgres/schema.ts';
import { lockInTransaction, tryLockInTransaction } from '../../src/stores/postgres/transaction-lock.ts';
import { type PostgresServer, startSharedPostgres } from '../support/servers/postgres.ts';

let server: PostgresServer;
let pool: pg.Pool;

beforeAll(async () => {
  server = await startSharedPostgres();
  const url = await server.createDatabase();
  server.psql(url, new Schema().script);
  pool = new pg.Pool({ connectionString: url, max: 4 });
}, 120_000);
afterAll(async () => {
  await pool?.end();
  await server?.stop();
});

/** As in examples/postgres-drizzle.ts and examples/postgres-kysely.ts. */
function ofDrizzle(tx: { execute(query: SQL): PromiseLike<{ rows: unknown[] }> }): QueryRunner {
  return {
    query(statement, values) {
      const parts = statement.split(/\$\d+/).map((part) => sql.raw(part));
      return tx.execute(
        sql.join(parts.flatMap((part, n) => (n === 0 ? [part] : [sql`${values[n - 1]}`, part]))),
      );
    },
  };
}

type InTransaction = (work: (tx: QueryRunner) => Promise<void>) => Promise<void>;

const BUILDERS: Readonly<Record<string, () => InTransaction>> = {
  Drizzle: () => (work) => drizzle(pool).transaction((tx) => work(ofDrizzle(tx))),
  Kysely: () => {
    const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }) });
    return (work) =>
      db
        .transaction()
        .execute((tx) => work({ query: (text, values) => tx.executeQuery(CompiledQuery.raw(text, values)) }));
  },
};

describe.each(Object.entries(BUILDERS))('in a transaction of %s', (title, make) => {
  it('locks are taken, refused in time, and errors that were wrapped are understood', async () => {
    const transaction = make();
    await transaction(async (a) => {
      await lockInTransaction(a, [title, 7n]);
      await transaction(async (b) => {
        expect(await tryLockInTransaction(b, title)).toBe(false);
        await expect(lockInTransaction(b, title, { waitMs: 30 })).rejects.toMatchObject({
          code: 'ACQUIRE_TIMEOUT',
        });
        await lockInTransaction(b, `${title} 2`);
      });
    });
    await transaction(async (tx) => expect(await tryLockInTransaction(tx, [title, 7n])).toBe(true));
  });

  it('fences are checked', async () => {
    const transaction = make();
    await transaction((tx) => postgresFenceGate(tx).check(title, 5n));
    await expect(transaction((tx) => postgresFenceGate(tx).check(title, 4n))).rejects.toMatchObject({
      code: 'STALE_FENCE',
    });
  });
});
