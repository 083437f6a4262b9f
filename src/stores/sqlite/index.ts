import { checkKeys } from '../../checks.ts';
import type { Store } from '../../store/store.ts';
import type { SqliteDatabase } from './client-library.ts';
import { SqliteStore, type SqliteStoreOptions } from './sqlite-store.ts';

export type { SqliteDatabase, SqliteStatement, SqliteValue } from './client-library.ts';
export type { SqliteStoreOptions } from './sqlite-store.ts';

/**
 * Locks shared by many processes of one host through one file on a local disk. A missing file is made,
 * a missing folder is not. SQLite keeps `-wal` and `-shm` beside it, and this store the folder `-wake`.
 *
 * @param pathOrDatabase a file; `:memory:` for this process alone; or a database of `node:sqlite`,
 * `better-sqlite3` or `libsql`, whose library then opens the same file once more. Only a database in
 * memory is used itself, and it is not closed.
 * @throws `StoreError` when the file can never work (a missing or closed folder, a network file system,
 * a second hard link, not a database); `UnsupportedError` without a SQLite library, and for a file
 * under Bun or Deno; `InvalidArgumentError` for anything but a path or a database, and for an
 * unknown option.
 */
export function sqliteStore(
  pathOrDatabase: string | SqliteDatabase,
  options: SqliteStoreOptions = {},
): Store {
  checkKeys(options, ['queueMax', 'clock']);
  return new SqliteStore(pathOrDatabase, options);
}
