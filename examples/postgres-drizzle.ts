// Money between two accounts, with Drizzle: node --import tsx examples/postgres-drizzle.ts
// postgres://postgres@127.0.0.1:5432/postgres
import { eq, type SQL, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { integer, pgTable, text } from 'drizzle-orm/pg-core';
import { lockInTransaction, type QueryRunner } from 'holdfast/postgres';
import pg from 'pg';

const account = pgTable('example_account', { name: text().primaryKey(), balance: integer().notNull() });

/** A transaction of Drizzle as Holdfast accepts it: the statements use each parameter once, in order. */
function asQueryable(tx: { execute(query: SQL): PromiseLike<{ rows: unknown[] }> }): QueryRunner {
  return {
    query(statement, values) {
      const parts = statement.split(/\$\d+/).map((part) => sql.raw(part));
      return tx.execute(
        sql.join(parts.flatMap((part, n) => (n === 0 ? [part] : [sql`${values[n - 1]}`, part]))),
      );
    },
  };
}

const pool = new pg.Pool({
  connectionString: process.argv[2] ?? 'postgres://postgres@127.0.0.1:5432/postgres',
});
const db = drizzle(pool);

async function move(from: string, to: string, amount: number): Promise<void> {
  await db.transaction(async (tx) => {
    // Both accounts in one call, so that two transfers in opposite directions never deadlock.
    await lockInTransaction(asQueryable(tx), [`account:${from}`, `account:${to}`]);
    const change = (name: string, by: number) =>
      tx
        .update(account)
        .set({ balance: sql`${account.balance} + ${by}` })
        .where(eq(account.name, name));
    await change(from, -amount);
    await change(to, amount);
  });
}

await db.execute(
  sql`CREATE TABLE IF NOT EXISTS example_account (name text PRIMARY KEY, balance int NOT NULL)`,
);
await db.execute(sql`INSERT INTO example_account VALUES ('ada', 100), ('bob', 100) ON CONFLICT DO NOTHING`);
await Promise.all(
  Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? move('ada', 'bob', 5) : move('bob', 'ada', 3))),
);
console.log(await db.select().from(account));
await db.execute(sql`DROP TABLE example_account`);
await pool.end();
