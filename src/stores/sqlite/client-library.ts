import { StoreError, UnsupportedError } from '../../errors.ts';
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

/** Opens a file. */
export interface OpenSqlite {
  (path: string): SqliteDatabase;
  /** The name of the library, for people. */
  readonly library?: string | undefined;
}

type DatabaseClass = new (path: string, options: { timeout: number }) => SqliteDatabase;

/** The library to open files with: the runtime's own, else one that the application has installed. */
export function findLibrary(): OpenSqlite {
  return builtIn() ?? betterSqlite3() ?? libsql() ?? missing();
}

/** The library that made this database. */
export function libraryOf(database: SqliteDatabase): OpenSqlite {
  const made = (database as { constructor: unknown }).constructor as DatabaseClass;
  // No waiting inside the library: its calls are synchronous and would block the event loop.
  return (path) => new made(path, { timeout: 0 });
}

export function isDatabase(value: unknown): value is SqliteDatabase {
  const methods: unknown[] = ['exec', 'prepare', 'close'].map(
    (name) => (value as Record<string, unknown> | null)?.[name],
  );
  return methods.every((method) => typeof method === 'function');
}

function builtIn(): OpenSqlite | null {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  // From 22.5 it was there behind a flag, and then without a way to set the time-out.
  if (major < 22 || (major === 22 && minor < 13)) return null;
  const { DatabaseSync } = quietly(
    () => process.getBuiltinModule('node:sqlite') as unknown as { DatabaseSync: DatabaseClass },
  );
  return openerOf('node:sqlite', DatabaseSync);
}

/** Node 22 warns that its SQLite is experimental, which the user of this store cannot change. */
function quietly<T>(load: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return load();
  } finally {
    process.emitWarning = emitWarning;
  }
}

function openerOf(library: string, made: DatabaseClass): OpenSqlite {
  return Object.assign((path: string) => new made(path, { timeout: 0 }), { library });
}

function installed(name: string): OpenSqlite | null {
  try {
    const loaded = requireInstalled(name) as DatabaseClass;
    // Loading may succeed without a working binary. Opening a database shows whether there is one.
    new loaded(':memory:', { timeout: 0 }).close();
    return openerOf(name, loaded);
  } catch {
    return null;
  }
}

function betterSqlite3(): OpenSqlite | null {
  return betterSqlite3Refusal() === null ? installed('better-sqlite3') : null;
}

function libsql(): OpenSqlite | null {
  return libsqlRefusal() === null ? installed('libsql') : null;
}

function libsqlRefusal(): string | null {
  return refusalOf('libsql', installedVersion('libsql'));
}

/** Under a Node.js that is too old, which npm only warns of, its binary crashes the process. */
function betterSqlite3Refusal(): string | null {
  const version = installedVersion('better-sqlite3');
  if (version === null) return null;
  const { engines } = requireInstalled('better-sqlite3/package.json') as { engines?: { node?: string } };
  const least = Number(/^>=\s*(\d+)/.exec(engines?.node ?? '')?.[1] ?? 0);
  const isNodeOld = Number.parseInt(process.versions.node, 10) < least;
  return isNodeOld
    ? `better-sqlite3 ${version} needs Node.js ${least}`
    : refusalOf('better-sqlite3', version);
}

function missing(): never {
  const refusals = [betterSqlite3Refusal(), libsqlRefusal()].filter((each) => each !== null);
  const why = refusals.length === 0 ? '' : ` (${refusals.join('; ')})`;
  throw new UnsupportedError(
    `No SQLite library works here${why}. Use Node.js 22.13 or newer, ` +
      'which has its own, or install one: npm install better-sqlite3@12 (or: npm install libsql)',
  );
}

/** The kinds of failure that are told apart. */
export type FailureKind =
  | 'busy'
  | 'full'
  | 'readonly'
  | 'corrupt'
  | 'not-a-database'
  | 'cannot-open'
  | 'io'
  | 'other';

const KINDS: readonly (readonly [code: number, name: string, kind: FailureKind])[] = [
  [5, 'SQLITE_BUSY', 'busy'],
  [6, 'SQLITE_LOCKED', 'busy'],
  [15, 'SQLITE_PROTOCOL', 'busy'],
  [13, 'SQLITE_FULL', 'full'],
  [8, 'SQLITE_READONLY', 'readonly'],
  [11, 'SQLITE_CORRUPT', 'corrupt'],
  [26, 'SQLITE_NOTADB', 'not-a-database'],
  [14, 'SQLITE_CANTOPEN', 'cannot-open'],
  [10, 'SQLITE_IOERR', 'io'],
];

/** Libraries give a name as `code`, or a number as `errcode` with a finer code in its upper bits. */
export function failureKind(error: unknown): FailureKind {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  for (const [number, name, kind] of KINDS) {
    if (typeof errcode === 'number' && (errcode & 0xff) === number) return kind;
    if (typeof code === 'string' && (code === name || code.startsWith(`${name}_`))) return kind;
  }
  // libsql reports a failure to open as text that ends with the number.
  return error instanceof Error && /: 14"?\)?$/.test(error.message) ? 'cannot-open' : 'other';
}

const EXPLANATIONS: Readonly<Record<FailureKind, string>> = {
  busy: 'another process kept it locked for too long (is one stopped in the middle of a write?)',
  full: 'the disk is full',
  readonly: 'it cannot be written to',
  corrupt:
    'the file is damaged; move it away, and its -wal and -shm files with it, to start with an empty one',
  'not-a-database': 'the file is not a SQLite database; it was left as it is',
  'cannot-open':
    'it cannot be opened or created; check that the folder exists and that this user may write to it',
  io: 'reading or writing failed',
  other: 'the database failed',
};

/** Nothing of a failed transaction stays, except perhaps when the disk itself failed under it. */
export function storeError(path: string, error: unknown): StoreError {
  const kind = failureKind(error);
  const detail = kind === 'busy' ? '' : `: ${error instanceof Error ? error.message : String(error)}`;
  const applied = kind === 'io' || kind === 'other' ? 'unknown' : 'no';
  return new StoreError(`SQLite store ${path}: ${EXPLANATIONS[kind]}${detail}`, { cause: error, applied });
}
