import type { Connection } from './connection.ts';
import { errorNumberOf, notBegun, notSent } from './failure.ts';
import type { Schema } from './schema.ts';

/** How long a migration may take, and the wait for another process that migrates. */
const MIGRATE_MS = 60_000;
export const NO_SUCH_TABLE = 1146;
/** Access denied to a database, to a table or to a column; no database is chosen. */
export const MAY_NOT = new Set([1044, 1046, 1142, 1143, 1227]);
/** The table, the column or the index is there already. */
const IS_THERE = new Set([1050, 1060, 1061]);

/** Whether all that this version needs is there. Migrations of a newer version do not matter. */
export async function isMigrated(connection: Connection, schema: Schema): Promise<boolean> {
  return (await appliedIn(connection, schema)) >= (schema.migrations.at(-1)?.id ?? 0);
}

/** The number of the last migration; 0 when there are no tables. */
export async function appliedIn(connection: Connection, schema: Schema): Promise<number> {
  try {
    const { rows } = await connection.run(schema.sql('SELECT MAX(id) FROM holdfast_migrations'));
    return Number(rows[0]?.[0] ?? 0);
  } catch (error) {
    if (errorNumberOf(error) === NO_SUCH_TABLE) return 0;
    throw error;
  }
}

/**
 * Applies the missing migrations. Any number of processes may call it at once: each waits for the one
 * before it, and then finds nothing to do. Rejects with `UnsupportedError` when this user lacks the
 * privileges.
 */
export async function migrate(
  connection: Connection,
  schema: Schema,
  waitMs: number = MIGRATE_MS,
): Promise<void> {
  try {
    const lock = `SELECT GET_LOCK(${schema.migrationLock}, ${waitMs / 1_000})`;
    const { rows } = await connection.run(lock, [], waitMs + 5_000);
    // 0: the time is over. NULL: the server ended the wait.
    if (Number(rows[0]?.[0]) !== 1) throw notSent('another process is still migrating the tables');
    const applied = await appliedIn(connection, schema);
    for (const { id, statements } of schema.migrations)
      if (id > applied) for (const text of statements) await step(connection, text);
  } catch (error) {
    if (MAY_NOT.has(errorNumberOf(error) ?? 0)) throw schema.missing((error as Error).message);
    // Each statement can be run again, and nothing else was sent yet.
    throw notBegun(error);
  } finally {
    await connection.run(`SELECT RELEASE_LOCK(${schema.migrationLock})`).catch(() => {});
  }
}

/**
 * MySQL commits each statement that changes a table. A migration that was interrupted is run again from
 * its beginning, and MySQL has no `ADD COLUMN IF NOT EXISTS`.
 */
async function step(connection: Connection, text: string): Promise<void> {
  try {
    if (text.trim() !== '') await connection.run(text, [], MIGRATE_MS);
  } catch (error) {
    if (!IS_THERE.has(errorNumberOf(error) ?? 0)) throw error;
  }
}
