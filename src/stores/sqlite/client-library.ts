import { HoldfastError, StoreError, UnsupportedError } from '../../errors.ts';
import { refusalOf } from '../shared/client-library.ts';
import { installedVersion, requireInstalled } from '../shared/installed.ts';

/** What the three libraries have in common: `node:sqlite`, `better-sqlite3` and `libsql`. */
export interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
  close(): unknown;
}

/** What is used of a prepared statement. */
export interface SqliteStatement {
  run(...values: SqliteValue[]): { changes: number | bigint };
  all(...values: SqliteValue[]): unknown[];
}

/** What is bound to a statement. */
export type SqliteValue = string | number | bigint;

export interface OpenSqlite {
  (path: string): SqliteDatabase;
  readonly library: string;
}

type DatabaseClass = new (path: string, options: { timeout: number }) => SqliteDatabase;

/** The library to open files with: the runtime's own, else one that the application has installed. */
export function findLibrary(): OpenSqlite {
  const builtIn = builtInClass();
  if (builtIn !== null) return openerOf('node:sqlite', builtIn);
  const refusals: string[] = [];
  for (const name of ['better-sqlite3', 'libsql']) {
    const refusal = refusalHere(name);
    if (refusal !== null) refusals.push(refusal);
    const installed = refusal === null ? installedClass(name) : null;
    if (installed !== null) return openerOf(name, installed);
  }
  const why = refusals.length === 0 ? '' : ` (${refusals.join('; ')})`;
  throw new UnsupportedError(
    `No SQLite library works here${why}. Use Node.js 22.13 or newer, ` +
      'which has its own, or install one: npm install better-sqlite3@12 (or: npm install libsql)',
  );
}

export function libraryOf(database: SqliteDatabase): OpenSqlite {
  const made = (database as { constructor: unknown }).constructor as DatabaseClass;
  return openerOf('the library of the database that was passed in', made);
}

/** No waiting inside the library: its calls are synchronous and would block the event loop. */
function openerOf(library: string, made: DatabaseClass): OpenSqlite {
  return Object.assign((path: string) => new made(path, { timeout: 0 }), { library });
}

export function isDatabase(value: unknown): value is SqliteDatabase {
  const members = (value ?? {}) as Record<string, unknown>;
  return ['exec', 'prepare', 'close'].every((name) => typeof members[name] === 'function');
}

function builtInClass(): DatabaseClass | null {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  // From 22.5 it was there behind a flag, and then without a way to set the time-out.
  if (major < 22 || (major === 22 && minor < 13)) return null;
  // Node 22 warns that its SQLite is experimental, which the user of this store cannot change.
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return (process.getBuiltinModule('node:sqlite') as unknown as { DatabaseSync: DatabaseClass })
      .DatabaseSync;
  } finally {
    process.emitWarning = emitWarning;
  }
}

function installedClass(name: string): DatabaseClass | null {
  try {
    const loaded = requireInstalled(name) as DatabaseClass;
    // Loading may succeed without a working binary. Opening a database shows whether there is one.
    new loaded(':memory:', { timeout: 0 }).close();
    return loaded;
  } catch {
    return null;
  }
}

/** Why the installed version of a library cannot be used; `null` when it can, or there is none. */
function refusalHere(name: string): string | null {
  const version = installedVersion(name);
  if (version === null || name !== 'better-sqlite3') return refusalOf(name, version);
  // Under a Node.js that is too old, which npm only warns of, its binary crashes the process.
  const { engines } = requireInstalled('better-sqlite3/package.json') as { engines?: { node?: string } };
  const least = Number(/^>=\s*(\d+)/.exec(engines?.node ?? '')?.[1] ?? 0);
  const isNodeOld = Number.parseInt(process.versions.node, 10) < least;
  return isNodeOld ? `${name} ${version} needs Node.js ${least}` : refusalOf(name, version);
}

/** `refused`: nothing was done. `unknown`: the disk itself may have failed under a transaction. */
type FailureKind = 'busy' | 'full' | 'refused' | 'unknown';

const BUSY = 'another process kept it locked for too long (is one stopped in the middle of a write?)';
const DAMAGED =
  'the file is damaged; move it away, and its -wal and -shm files with it, to start with an empty one';
const NOT_OPENED =
  'it cannot be opened or created; check that the folder exists and that this user may write to it';
const FAILURES: readonly (readonly [number: number, name: string, kind: FailureKind, why: string])[] = [
  [5, 'SQLITE_BUSY', 'busy', BUSY],
  [6, 'SQLITE_LOCKED', 'busy', BUSY],
  [15, 'SQLITE_PROTOCOL', 'busy', BUSY],
  [13, 'SQLITE_FULL', 'full', 'the disk is full'],
  [8, 'SQLITE_READONLY', 'refused', 'it cannot be written to'],
  [11, 'SQLITE_CORRUPT', 'refused', DAMAGED],
  [26, 'SQLITE_NOTADB', 'refused', 'the file is not a SQLite database; it was left as it is'],
  [14, 'SQLITE_CANTOPEN', 'refused', NOT_OPENED],
  [10, 'SQLITE_IOERR', 'unknown', 'reading or writing failed'],
];

/** libsql reports a failure to open as text that ends with the number. */
const IN_TEXT = /: (14)"?\)?$/;

/** Libraries give a name as `code`, or a number as `errcode` with a finer code in its upper bits. */
export function failureIn(error: unknown): { readonly kind: FailureKind; readonly why: string } {
  const { code, errcode, message } = (error ?? {}) as Record<string, unknown>;
  const given = typeof errcode === 'number' ? errcode & 0xff : Number(IN_TEXT.exec(`${message}`)?.[1]);
  for (const [number, name, kind, why] of FAILURES)
    if (given === number || code === name || `${code}`.startsWith(`${name}_`)) return { kind, why };
  return { kind: 'unknown', why: 'the database failed' };
}

/** Nothing of a failed transaction stays, except perhaps when the disk itself failed under it. */
export function storeError(path: string, error: unknown): HoldfastError {
  if (error instanceof HoldfastError) return error;
  const { kind, why } = failureIn(error);
  const detail = kind === 'busy' ? '' : `: ${error instanceof Error ? error.message : String(error)}`;
  const applied = kind === 'unknown' ? 'unknown' : 'no';
  return new StoreError(`SQLite store ${path}: ${why}${detail}`, { cause: error, applied });
}
