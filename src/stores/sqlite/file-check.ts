import {
  accessSync,
  constants,
  readdirSync,
  readlinkSync,
  realpathSync,
  statfsSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { StoreError } from '../../errors.ts';

/** File systems whose locks or shared memory do not reach every process that can see the file. By their number on Linux. */
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
 * Finds out before the first write what would otherwise fail late or, on a network file system, not fail at all: there two hosts could both hold a lock.
 * Throws a `StoreError` that had no effect.
 */
export function checkFile(path: string, typeOf: (folder: string) => number = fileSystemType): void {
  const folder = dirname(path);
  if (!isFolder(folder)) throw refusal(path, `the folder ${folder} does not exist`);
  const network = NETWORK.get(typeOf(folder));
  if (network !== undefined) {
    throw refusal(
      path,
      `it is on a network file system (${network}), where locks cannot be trusted; use a local disk, or a server`,
    );
  }
  // The database itself, and beside it the log and the wake files that it needs.
  if (!isWritable(folder)) throw refusal(path, `this user may not write to the folder ${folder}`);
  if (exists(path) && !isWritable(path)) throw refusal(path, 'this user may not write to the file');
}

/**
 * SQLite shares what it knows of a file among all connections of a process. As long as one of them still has a log that was removed under it, a new one would use that
 * too, and write where nobody else reads. libsql closes a connection only when its statements are collected, so this can last a while.
 */
export function checkNotStranded(path: string): void {
  if (!exists(path)) return;
  const file = realpathSync(path);
  const open = new Set(openFiles());
  if (!open.has(file) || open.has(`${file}-shm`) || !open.has(`${file}-shm (deleted)`)) return;
  throw refusal(
    path,
    'its log was removed while this process used it, because this process opened and closed the file by other means (a copy or a backup?) and so dropped its locks; restart it',
  );
}

/** Linux only; elsewhere nothing is known. */
function openFiles(): string[] {
  try {
    return readdirSync('/proc/self/fd').map(fileOf);
  } catch {
    return [];
  }
}

function fileOf(descriptor: string): string {
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

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function refusal(path: string, problem: string): StoreError {
  return new StoreError(`SQLite store ${path}: ${problem}`, { applied: 'no' });
}
