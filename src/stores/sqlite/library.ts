import { createRequire } from 'node:module';
import { StoreError, UnsupportedError } from '../../errors.ts';

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

export type OpenSqlite = (path: string) => SqliteDatabase;

type DatabaseClass = new (path: string, options: { timeout: number }) => SqliteDatabase;

const require = createRequire(import.meta.url);

/**
 * The library to open files with: the runtime's own where it has one, else the one that the application has installed, else the one that comes with
 * this package as an optional dependency.
 */
export function findLibrary(): OpenSqlite {
  return builtIn() ?? betterSqlite3() ?? installed('libsql') ?? missing();
}

/** The library that made this database. */
export function libraryOf(database: SqliteDatabase): OpenSqlite {
  const made = (database as { constructor: unknown }).constructor as DatabaseClass;
  // No waiting inside the library: its calls are synchronous, and a stopped writer would stop our event loop too.
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
  const { DatabaseSync } = quietly(() => require('node:sqlite') as { DatabaseSync: DatabaseClass });
  return (path) => new DatabaseSync(path, { timeout: 0 });
}

/** Node 22 warns that its SQLite is experimental. Whoever chose this store did not choose that, and can do nothing about it. */
function quietly<T>(load: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return load();
  } finally {
    process.emitWarning = emitWarning;
  }
}

function installed(name: string): OpenSqlite | null {
  try {
    const loaded = require(name) as DatabaseClass;
    // Loading may succeed where the binary does not: only opening a database shows that it works here.
    new loaded(':memory:', { timeout: 0 }).close();
    return (path) => new loaded(path, { timeout: 0 });
  } catch {
    return null;
  }
}

/** npm only warns of a package that is made for a later Node.js, and this one's binary does not fail to load there: it crashes the process. */
function betterSqlite3(): OpenSqlite | null {
  try {
    const { engines } = require('better-sqlite3/package.json') as { engines?: { node?: string } };
    const least = Number(/^>=\s*(\d+)/.exec(engines?.node ?? '')?.[1] ?? 0);
    return Number.parseInt(process.versions.node, 10) < least ? null : installed('better-sqlite3');
  } catch {
    return null;
  }
}

function missing(): never {
  throw new UnsupportedError(
    'No SQLite library works here. Use Node 22.13 or later, which has its own, or install one: npm install libsql',
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

/** Each library says it in its own way: a name as `code`, or a number as `errcode`, which may carry a finer code in its upper bits. */
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
