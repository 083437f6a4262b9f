import type { Connection } from './connection.ts';
import { errorNumberOf, notBegun } from './failure.ts';
import type { Schema } from './schema.ts';

/** Another process may be migrating at the same time. */
const MIGRATE_MS = 60_000;
export const NO_SUCH_TABLE = 1146;
/** Access denied to a database, to a table or to a column; no database is chosen. */
export const MAY_NOT = new Set([1044, 1046, 1142, 1143, 1227]);

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
 * Brings the tables up to date. Any number of processes may do it at once: each waits for the one
 * before it and then has nothing to do. Rejects with `UnsupportedError` when this user may not.
 */
export async function migrate(connection: Connection, schema: Schema): Promise<void> {
  try {
    await connection.run(
      `SELECT GET_LOCK(${schema.migrationLock}, ${MIGRATE_MS / 1_000})`,
      [],
      MIGRATE_MS + 5_000,
    );
    if (await isMigrated(connection, schema)) return;
    for (const { statements } of schema.migrations) {
      for (const text of statements) if (text.trim() !== '') await connection.run(text, [], MIGRATE_MS);
    }
  } catch (error) {
    if (MAY_NOT.has(errorNumberOf(error) ?? 0)) throw schema.missing((error as Error).message);
    // Each statement can be run again, and nothing else was sent yet.
    throw notBegun(error);
  } finally {
    await connection.run(`SELECT RELEASE_LOCK(${schema.migrationLock})`).catch(() => {});
  }
}
