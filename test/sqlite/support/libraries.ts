import { createRequire } from 'node:module';
import type { SqliteDatabase } from '../../../src/stores/sqlite/index.ts';

export type LibraryName = 'node:sqlite' | 'better-sqlite3' | 'libsql';

const require = createRequire(import.meta.url);

/** A database of that library, as an application would make it. */
export function openWith(library: LibraryName, path: string): SqliteDatabase {
  if (library === 'node:sqlite') {
    const { DatabaseSync } = require(library) as { DatabaseSync: new (path: string) => SqliteDatabase };
    return new DatabaseSync(path);
  }
  const Database = require(library) as new (path: string) => SqliteDatabase;
  return new Database(path);
}
