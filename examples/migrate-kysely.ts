// Migrates the schema with Kysely when an instance starts: one instance at a time, the others wait.
// Run it three times: DATABASE_URL=postgres://localhost/shop node --import tsx examples/migrate-kysely.ts
import { openLocks } from 'holdfast';
import { Kysely, type Migration, Migrator, PostgresAdapter, PostgresDialect, sql } from 'kysely';
import pg from 'pg';

const url = process.env.DATABASE_URL ?? 'postgres://localhost/shop';
const migrations: Record<string, Migration> = {
  '2026-11-16-accounts': {
    async up(db) {
      await db.schema.createTable('accounts').addColumn('name', 'text').execute();
      await sql`SELECT pg_sleep(0.3)`.execute(db); // stands for a large table
      await sql`INSERT INTO accounts VALUES ('ada')`.execute(db);
    },
  },
};

/**
 * Kysely's own lock belongs to a session. Behind a pooler in transaction mode it stays on a connection
 * of the pooler, and the next instance waits for it. The lock of Holdfast replaces it.
 */
class AdapterWithoutLock extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}
class Dialect extends PostgresDialect {
  override createAdapter(): PostgresAdapter {
    return new AdapterWithoutLock();
  }
}

async function migrateSchema(): Promise<void> {
  const locks = await openLocks(url);
  const pool = new pg.Pool({ connectionString: url });
  const db = new Kysely<object>({ dialect: new Dialect({ pool }) });
  try {
    const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } });
    await locks.withLock(
      'migrations',
      async () => {
        const { error } = await migrator.migrateToLatest();
        if (error !== undefined) throw error;
      },
      { waitMs: 600_000 },
    );
  } finally {
    await db.destroy();
    await locks.close();
  }
}

await migrateSchema();
console.log('ready');
