import {
  accessSync,
  constants,
  existsSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  statfsSync,
  statSync,
} from 'node:fs';
import { dirname, resolve } from 'node:path';
import { InvalidArgumentError, StoreError } from '../../errors.ts';
import { findLibrary, isDatabase, libraryOf, type SqliteDatabase } from './client-library.ts';
import { Connection } from './connection.ts';
import type { Host } from './host-clock.ts';

/** File systems whose locks or shared memory do not reach every process, by their number on Linux. */
const NETWORK: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x564c, 'NCP'],
  [0x01021997, '9P'],
  [0x5346414f, 'AFS'],
  [0x6b414653, 'AFS'],
  [0x73757245, 'Coda'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x47504653, 'GPFS'],
  [0x7461636f, 'OCFS2'],
  [0x01161970, 'GFS2'],
  [0x65735546, 'FUSE'],
]);

/**
 * Where the claims are (`null`: in memory), and how to get there. A given database tells which library
 * to use and which file to open. One in memory is used itself.
 */
export function sourceOf(source: string | SqliteDatabase, host: Host) {
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

/**
 * Finds before the first write what would otherwise fail late or not at all: on a network file system,
 * or through two hard links, two processes could both hold a lock. Throws a `StoreError` that had no
 * effect.
 */
export function checkFile(path: string, typeOf: (folder: string) => number = fileSystemType): void {
  const problem = fileProblem(path) ?? networkProblem(path, typeOf) ?? strandedProblem(path);
  if (problem !== null) throw new StoreError(`SQLite store ${path}: ${problem}`, { applied: 'no' });
}

function networkProblem(path: string, typeOf: (folder: string) => number): string | null {
  const network = NETWORK.get(typeOf(dirname(path)));
  if (network === undefined) return null;
  return (
    `it is on a network file system (${network}), where locks cannot be trusted; ` +
    'use a local disk, or a server'
  );
}

/** The name of the network file system that a folder is on; `null` for a local one. */
export function networkFileSystem(folder: string): string | null {
  return NETWORK.get(fileSystemType(folder)) ?? null;
}

/** Why this user cannot use the file, or not safely; `null` when nothing is wrong. */
export function fileProblem(path: string): string | null {
  const folder = dirname(path);
  const isFolder = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
  if (!isFolder) return `the folder ${folder} does not exist`;
  // SQLite writes its log there, and this store its notification files.
  if (!isWritable(folder)) return `this user may not write to the folder ${folder}`;
  const file = statSync(path, { throwIfNoEntry: false });
  if (file === undefined) return null;
  // SQLite keeps its log beside the name that was opened: two names have two logs, and two holders.
  if (file.nlink > 1) return 'the file has more than one hard link; remove the others';
  return isWritable(path) ? null : 'this user may not write to the file';
}

/**
 * SQLite shares its view of a file among all connections of a process. While one of them still has a
 * log that was removed, a new one would use that too, and write where no other process reads. libsql
 * closes a connection only when its statements are garbage-collected, so this can last a while.
 */
function strandedProblem(path: string): string | null {
  if (!existsSync(path)) return null;
  const file = realpathSync(path);
  const open = new Set(openFiles());
  if (!open.has(file) || open.has(`${file}-shm`) || !open.has(`${file}-shm (deleted)`)) return null;
  return (
    'its log was removed while this process used it. This process has opened and closed the file by other ' +
    'means (a copy or a backup?), which drops its locks; restart the process'
  );
}

/** Linux only; elsewhere nothing is known. */
function openFiles(): string[] {
  try {
    return readdirSync('/proc/self/fd').map(openFile);
  } catch {
    return [];
  }
}

function openFile(descriptor: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`);
  } catch {
    return '';
  }
}

function fileSystemType(folder: string): number {
  // Other systems number theirs differently.
  return process.platform === 'linux' ? statfsSync(folder).type : 0;
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
