// Migrates the schema with Drizzle when an instance starts: one instance at a time, the others wait.
// Run it three times: DATABASE_URL=postgres://localhost/shop
// node --import tsx examples/migrate-drizzle.ts ./drizzle
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import { openLocks } from 'holdfast';
import pg from 'pg';

const url = process.env.DATABASE_URL ?? 'postgres://localhost/shop';
const migrationsFolder = process.argv[2] ?? './drizzle';

async function migrateSchema(): Promise<void> {
  const locks = await openLocks(url);
  const pool = new pg.Pool({ connectionString: url });
  try {
    await locks.withLock('migrations', () => migrate(drizzle(pool), { migrationsFolder }), {
      waitMs: 600_000,
    });
  } finally {
    await pool.end();
    await locks.close();
  }
}

await migrateSchema();
console.log('ready');
