import type { Connection } from './connection.ts';
import { notBegun, sqlStateOf } from './failure.ts';
import type { Schema } from './schema.ts';

/** How long a migration may take, including the wait for another process that migrates. */
const MIGRATE_MS = 60_000;

/** Whether all migrations of this version were applied. Those of a newer version do not matter. */
export async function isMigrated(connection: Connection, schema: Schema): Promise<boolean> {
  const last = schema.migrations.at(-1)?.id ?? 0;
  const [row] = await connection.run({
    text: `SELECT (to_regclass('${schema.quoted}.migrations') IS NOT NULL)::text`,
  });
  if (row?.[0] !== 'true') return false;
  return (await appliedIn(connection, schema)) >= last;
}

/**
 * Applies the missing migrations in one transaction. Any number of processes may call it at once:
 * each waits for the one before it, and then finds nothing to do. Rejects with `UnsupportedError` when
 * this user lacks the privileges.
 */
export async function migrate(connection: Connection, schema: Schema): Promise<void> {
  try {
    await connection.run({ text: 'BEGIN ISOLATION LEVEL READ COMMITTED' });
    await connection.run({ text: schema.migrationLock }, MIGRATE_MS);
    await connection.run({ text: schema.creation });
    const applied = await appliedIn(connection, schema);
    for (const { id, text } of schema.migrations) {
      if (id > applied) await connection.run({ text }, MIGRATE_MS);
    }
    await connection.run({ text: 'COMMIT' });
  } catch (error) {
    await connection.run({ text: 'ROLLBACK' }).catch(() => {});
    throw refusalOf(error, schema);
  }
}

/** The number of the last migration. */
export async function appliedIn(connection: Connection, schema: Schema): Promise<number> {
  const text = `SELECT coalesce(max(id), 0)::text FROM ${schema.quoted}.migrations`;
  const [row] = await connection.run({ text });
  return Number(row?.[0] ?? 0);
}

/** A failed migration has no effect, and no other statement was sent yet. */
function refusalOf(error: unknown, schema: Schema): Error {
  const { cause } = error as Error;
  if (sqlStateOf(cause) === '42501') return schema.missing((cause as Error).message);
  return notBegun(error);
}
