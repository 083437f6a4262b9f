import { InvalidArgumentError } from '../errors.ts';
import { isDatabase, type SqliteDatabase } from '../stores/sqlite/client-library.ts';
import { assertNotStale, checkFence, type FenceGate } from './fence-gate.ts';

const TABLE = `CREATE TABLE IF NOT EXISTS holdfast_gate
  (resource TEXT PRIMARY KEY, fence INTEGER NOT NULL) WITHOUT ROWID`;
const RAISE = `INSERT INTO holdfast_gate VALUES (?, ?)
  ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE excluded.fence >= fence`;
const LATEST = 'SELECT CAST(fence AS TEXT) AS fence FROM holdfast_gate WHERE resource = ?';

/** A gate that can also be checked synchronously. */
export interface SqliteFenceGate extends FenceGate {
  /** For code that cannot await, such as a transaction of `better-sqlite3`. Throws where `check` rejects. */
  checkSync(resource: string, fence: bigint): void;
}

/**
 * A fence gate in the database that the writes go to. Check inside the transaction that writes, so that
 * both commit or neither does:
 *
 * ```ts
 * db.exec('BEGIN IMMEDIATE');
 * try {
 *   gate.checkSync('account 7', hold.fence);
 *   db.prepare('UPDATE account SET …').run(…);
 *   db.exec('COMMIT');
 * } catch (error) {
 *   db.exec('ROLLBACK');
 *   throw error;
 * }
 * ```
 *
 * When the write depends on something read before, check before reading as well: from then on no
 * earlier holder can change it.
 *
 * Keeps its table, `holdfast_gate`, in the database. Errors of the database, "busy" included, pass
 * through unchanged.
 *
 * @param db a database of `node:sqlite`, `better-sqlite3` or `libsql`; it stays the caller's.
 */
export function sqliteFenceGate(db: SqliteDatabase): SqliteFenceGate {
  if (!isDatabase(db)) throw new InvalidArgumentError('db', 'must be a SQLite database');
  const checkSync = (resource: string, fence: bigint): void => {
    checkFence(resource, fence);
    // Each time, because a rollback also removes a table that was made in the transaction.
    db.exec(TABLE);
    if (Number(db.prepare(RAISE).run(resource, fence).changes) === 1) return;
    const rows = db.prepare(LATEST).all(resource);
    assertNotStale(resource, fence, BigInt((rows[0] as { fence: string }).fence));
  };
  return {
    checkSync,
    async check(resource, fence) {
      checkSync(resource, fence);
    },
  };
}
