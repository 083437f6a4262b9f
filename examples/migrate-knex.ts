// Migrates the schema with Knex when an instance starts: one instance at a time, the others wait.
// Run it three times: DATABASE_URL=postgres://localhost/shop
// node --import tsx examples/migrate-knex.ts ./migrations
import { openLocks } from 'holdfast';
import knex from 'knex';

const url = process.env.DATABASE_URL ?? 'postgres://localhost/shop';
const directory = process.argv[2] ?? './migrations';

async function migrateSchema(): Promise<void> {
  const locks = await openLocks(url);
  const db = knex({ client: 'pg', connection: url, migrations: { directory } });
  try {
    await locks.withLock(
      'migrations',
      async () => {
        // The lock of Knex is a row, which a process that was killed leaves behind. No other process
        // migrates while this one has our lock, so the row belongs to a dead process.
        await db.migrate.forceFreeMigrationsLock();
        await db.migrate.latest();
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
