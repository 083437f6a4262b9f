import { readlinkSync, realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { InvalidArgumentError } from '../../errors.ts';
import {
  findLibrary,
  isDatabase,
  libraryOf,
  type OpenSqlite,
  type SqliteDatabase,
} from './client-library.ts';
import { Connection } from './connection.ts';
import { checkFile, checkNotStranded } from './file-check.ts';

/** Where the claims are, and how to get there. */
export interface Source {
  /** `null`: in memory. */
  readonly path: string | null;
  readonly connect: () => Connection;
}

/** A given database tells which library to use and which file to open. One in memory is used itself. */
export function sourceOf(source: string | SqliteDatabase, bootId: string): Source {
  if (typeof source !== 'string') {
    if (!isDatabase(source))
      throw new InvalidArgumentError('pathOrDatabase', 'must be a path or a SQLite database');
    const [main] = source.prepare('PRAGMA database_list').all() as { file: string }[];
    if (!main?.file)
      return { path: null, connect: () => new Connection(libraryOf(source), null, bootId, source) };
    return fileSource(main.file, libraryOf(source), bootId);
  }
  if (source === '') throw new InvalidArgumentError('pathOrDatabase', 'must not be empty');
  const open = findLibrary();
  if (source === ':memory:') return { path: null, connect: () => new Connection(open, null, bootId, null) };
  return fileSource(linkedFrom(resolve(source)), open, bootId);
}

function fileSource(path: string, open: OpenSqlite, bootId: string): Source {
  return {
    path,
    connect: () => {
      checkFile(path);
      checkNotStranded(path);
      return new Connection(open, path, bootId, null);
    },
  };
}

/** SQLite keeps its log beside the file itself, not beside a symbolic link to it. */
function linkedFrom(path: string, hops = 40): string {
  try {
    return hops === 0 ? path : linkedFrom(resolve(realpathSync(dirname(path)), readlinkSync(path)), hops - 1);
  } catch {
    // No link, or nothing yet.
    return path;
  }
}
