import { readlinkSync, realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { InvalidArgumentError } from '../../errors.ts';
import { findLibrary, isDatabase, libraryOf, type SqliteDatabase } from './client-library.ts';
import { Connection } from './connection.ts';
import { checkFile } from './file-check.ts';
import type { Host } from './host-clock.ts';

/** Where the claims are, and how to get there. */
export interface Source {
  /** `null`: in memory. */
  readonly path: string | null;
  readonly connect: () => Connection;
}

/** A given database tells which library to use and which file to open. One in memory is used itself. */
export function sourceOf(source: string | SqliteDatabase, host: Host): Source {
  const isPath = typeof source === 'string';
  if (!isPath && !isDatabase(source))
    throw new InvalidArgumentError('pathOrDatabase', 'must be a path or a SQLite database');
  if (source === '') throw new InvalidArgumentError('pathOrDatabase', 'must not be empty');
  const open = isPath ? findLibrary() : libraryOf(source);
  const path = isPath ? fileAt(source) : fileOf(source);
  const lent = isPath || path !== null ? null : source;
  const connect = (): Connection => {
    if (path !== null) checkFile(path);
    return new Connection(open, path, host, lent);
  };
  return { path, connect };
}

function fileAt(path: string): string | null {
  return path === ':memory:' ? null : linkedFrom(resolve(path));
}

function fileOf(database: SqliteDatabase): string | null {
  const [main] = database.prepare('PRAGMA database_list').all() as { file: string }[];
  return main?.file || null;
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
