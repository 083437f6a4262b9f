import type { Store } from '../../store/store.ts';
import type { SqliteDatabase } from './library.ts';
import { SqliteStore, type SqliteStoreOptions } from './sqlite-store.ts';

export type { SqliteDatabase, SqliteStatement, SqliteValue } from './library.ts';
export type { SqliteStoreOptions } from './sqlite-store.ts';

/**
 * Locks shared by many processes of one host through one file. The file is made when it does not exist, its folder is not; beside it SQLite keeps
 * `-wal` and `-shm`, and this store the folder `-wake`. Needs a local disk.
 *
 * @param pathOrDatabase a file; `:memory:` for this process alone; or a database of `node:sqlite`, `better-sqlite3` or `libsql`, whose library is then
 * used to open the same file once more. Only a database in memory is itself used, and then not closed.
 * @throws `StoreError` when the file can never work (the folder is missing or closed to us, a network file system, not a database);
 * `UnsupportedError` when there is no SQLite library; `InvalidArgumentError` for something else than a path or a database.
 */
export function sqliteStore(
  pathOrDatabase: string | SqliteDatabase,
  options: SqliteStoreOptions = {},
): Store {
  return new SqliteStore(pathOrDatabase, options);
}
