// Money between two accounts, with Kysely: node --import tsx examples/postgres-kysely.ts
// postgres://postgres@127.0.0.1:5432/postgres
import { lockInTransaction, type QueryRunner } from 'holdfast/postgres';
import { CompiledQuery, Kysely, PostgresDialect, sql, type Transaction } from 'kysely';
import pg from 'pg';

interface Database {
  example_account: { name: string; balance: number };
}

/** A transaction of Kysely as Holdfast accepts it. */
function asQueryable<DB>(tx: Transaction<DB>): QueryRunner {
  return { query: (text, values) => tx.executeQuery(CompiledQuery.raw(text, values)) };
}

const pool = new pg.Pool({
  connectionString: process.argv[2] ?? 'postgres://postgres@127.0.0.1:5432/postgres',
});
const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) });

async function move(from: string, to: string, amount: number): Promise<void> {
  await db.transaction().execute(async (tx) => {
    // Both accounts in one call, so that two transfers in opposite directions never deadlock.
    await lockInTransaction(asQueryable(tx), [`account:${from}`, `account:${to}`]);
    const change = (name: string, by: number) =>
      tx
        .updateTable('example_account')
        .set({ balance: sql`balance + ${by}` })
        .where('name', '=', name)
        .execute();
    await change(from, -amount);
    await change(to, amount);
  });
}

await sql`CREATE TABLE IF NOT EXISTS example_account (name text PRIMARY KEY, balance int NOT NULL)`.execute(
  db,
);
await sql`INSERT INTO example_account VALUES ('ada', 100), ('bob', 100) ON CONFLICT DO NOTHING`.execute(db);
await Promise.all(
  Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? move('ada', 'bob', 5) : move('bob', 'ada', 3))),
);
console.log(await db.selectFrom('example_account').selectAll().execute());
await sql`DROP TABLE example_account`.execute(db);
await db.destroy();
