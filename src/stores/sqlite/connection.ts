import { closeSync, fstatSync, openSync } from 'node:fs';
import { StoreError } from '../../errors.ts';
import type { OpenSqlite, SqliteDatabase, SqliteStatement, SqliteValue } from './library.ts';
import { failureKind } from './library.ts';
import { FORMAT, SCHEMA, SQL, type StatementName } from './schema.ts';

/** Each process adds up its writes so many at a time, and the log is written back to the database after so many of all. */
const WRITES_STEP = 128;
const WRITES_MAX = 1_024;

/**
 * No waiting inside the library. Small pages, where the file is new: a claim is a short row, and each write copies a page into the log. The log is written back
 * by ourselves, long before SQLite would do it.
 */
const SETTINGS = `
PRAGMA page_size = 1024;
PRAGMA busy_timeout = 0;
PRAGMA synchronous = NORMAL;
PRAGMA wal_autocheckpoint = 10000;
`;

/**
 * One open database with its prepared statements. Every call is synchronous and short, no transaction outlasts one, and none waits: when another process
 * is writing, the call throws "busy" at once.
 */
export class Connection {
  readonly #database: SqliteDatabase;
  readonly #statements = new Map<StatementName, SqliteStatement>();
  readonly #owned: boolean;
  readonly #path: string | null;
  readonly #open: OpenSqlite;
  #log: number | null = null;
  readonly bootNumber: number;
  #doubtful = false;
  #isSpoilt = false;
  #writes = 0;

  /** @param path the file, or `null` when the database is in memory. */
  constructor(open: OpenSqlite, path: string | null, bootId: string, lent: SqliteDatabase | null) {
    this.#open = open;
    this.#path = path;
    this.#owned = lent === null;
    this.#database = lent ?? open(path ?? ':memory:');
    try {
      if (this.#owned) this.#database.exec(SETTINGS);
      if (path !== null) this.#useLog();
      this.#setUp();
      this.bootNumber = this.#findBoot(bootId);
      // SQLite takes no locks on this file, so closing a descriptor of our own does no harm.
      if (path !== null) this.#log = openSync(`${path}-wal`, 'r');
    } catch (error) {
      this.close();
      throw error;
    }
  }

  run(name: StatementName, ...values: SqliteValue[]): number {
    return Number(this.#statement(name).run(...values).changes);
  }

  all<T>(name: StatementName, ...values: SqliteValue[]): T[] {
    return this.#statement(name).all(...values) as T[];
  }

  /**
   * Whether a statement of its own may be trusted to commit. After a statement failed, libsql keeps it half-way, and until it has run again every later
   * one seems to succeed but is not committed. COMMIT does notice.
   */
  get isDoubtful(): boolean {
    return this.#doubtful;
  }

  doubt(): void {
    this.#doubtful = true;
  }

  transact<T>(work: () => T): T {
    // Not a prepared statement: see `isDoubtful`.
    this.#database.exec('BEGIN IMMEDIATE');
    let isDone = false;
    try {
      const result = work();
      isDone = true;
      this.#database.exec('COMMIT');
      this.#doubtful = false;
      return result;
    } catch (error) {
      this.#isSpoilt = isDone;
      this.#rollBack();
      throw error;
    }
  }

  /** COMMIT itself failed, for example over a statement that is half-way: only another connection helps. */
  get isSpoilt(): boolean {
    return this.#isSpoilt;
  }

  /** Whether all that is held ends with this connection: then there is none to open instead. */
  get isOnlyCopy(): boolean {
    return this.#owned && this.#path === null;
  }

  /**
   * Whether what was written can be seen by others. POSIX drops a process's locks on a file when *any* descriptor of it is closed, for example by
   * reading the file for a copy; another process then takes itself for the last one and removes the log, into which this one would go on writing alone.
   */
  isShared(): boolean {
    return this.#log === null || fstatSync(this.#log).nlink > 0;
  }

  /** Called after each batch: now and then there is something to put in order. */
  afterBatch(tidy: () => void): void {
    this.#writes += 1;
    if (this.#writes >= WRITES_STEP && this.#path !== null) this.upkeep(tidy);
  }

  /** Adds our writes to those of all, and when they are enough, removes what nobody needs any more and writes the log back. */
  upkeep(tidy: () => void): void {
    const due = this.transact(() => {
      const total = this.all<{ count: number }>('countWrites', this.#writes)[0]?.count ?? 0;
      if (total < WRITES_MAX) return false;
      tidy();
      this.run('resetWrites');
      return true;
    });
    this.#writes = 0;
    if (due && this.#path !== null) this.#checkpoint();
  }

  /**
   * Writes the log back to the database. SQLite before 3.51.3 could lose a transaction when another process began the log anew during a checkpoint;
   * there it is done from a second connection under the write lock of this one, so that no other process can.
   */
  #checkpoint(): void {
    const write = 'PRAGMA wal_checkpoint(PASSIVE)';
    if (this.#hasSafeCheckpoint()) {
      this.#database.exec(write);
      return;
    }
    const second = this.#open(this.#path ?? ':memory:');
    try {
      second.exec(SETTINGS);
      this.transact(() => second.exec(write));
    } finally {
      second.close();
    }
  }

  #hasSafeCheckpoint(): boolean {
    const [row] = this.#database.prepare('SELECT sqlite_version() AS version').all() as { version: string }[];
    const [major = 0, minor = 0, patch = 0] = (row?.version ?? '').split('.').map(Number);
    return major > 3 || (major === 3 && (minor > 51 || (minor === 51 && patch >= 3)));
  }

  close(): void {
    if (this.#log !== null) closeSync(this.#log);
    this.#log = null;
    if (!this.#owned) return;
    this.#statements.clear();
    this.#database.close();
  }

  #statement(name: StatementName): SqliteStatement {
    let statement = this.#statements.get(name);
    if (statement === undefined) {
      statement = this.#database.prepare(SQL[name]);
      this.#statements.set(name, statement);
    }
    return statement;
  }

  #rollBack(): void {
    this.#doubtful = true;
    try {
      this.#database.exec('ROLLBACK');
    } catch {
      // SQLite has already rolled back by itself after the worst failures.
    }
  }

  #useLog(): void {
    const mode = (): unknown =>
      (this.#database.prepare('PRAGMA journal_mode').all()[0] as { journal_mode: unknown }).journal_mode;
    if (mode() === 'wal') return;
    this.#database.exec('PRAGMA journal_mode = WAL');
    if (mode() !== 'wal')
      throw new StoreError('SQLite could not switch to write-ahead logging here', { applied: 'no' });
  }

  /** Reading comes first, so that opening a file that is ready needs no write lock. */
  #setUp(): void {
    if (this.#format() === null) this.transact(() => this.#database.exec(SCHEMA));
    const format = this.#format();
    if (format !== String(FORMAT)) {
      const problem = `was written by another version of holdfast (format ${format}, this one knows ${FORMAT})`;
      throw new StoreError(`SQLite store ${this.#path ?? 'in memory'}: it ${problem}`, { applied: 'no' });
    }
  }

  #format(): string | null {
    const tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'holdfast_meta'";
    if (this.#database.prepare(tables).all().length === 0) return null;
    const rows = this.#database.prepare("SELECT value FROM holdfast_meta WHERE key = 'format'").all();
    return (rows[0] as { value: string } | undefined)?.value ?? null;
  }

  #findBoot(bootId: string): number {
    const find = (): number | undefined =>
      (
        this.#database.prepare('SELECT number FROM holdfast_boot WHERE boot = ?').all(bootId)[0] as
          | { number: number }
          | undefined
      )?.number;
    const known = find();
    if (known !== undefined) return known;
    this.transact(() => {
      // The leases of a boot that is not in the list any more are judged by the wall clock like those of any other.
      this.#database.exec(
        'DELETE FROM holdfast_boot WHERE number <= (SELECT max(number) FROM holdfast_boot) - 100',
      );
      this.#database.prepare('INSERT OR IGNORE INTO holdfast_boot (boot) VALUES (?)').run(bootId);
    });
    return find() ?? 0;
  }
}

/** After these, the connection is opened anew: the file may have been replaced, or the disk mended. */
export function isFatal(error: unknown): boolean {
  return failureKind(error) !== 'busy' && failureKind(error) !== 'full';
}
