import { statSync } from 'node:fs';
import { StoreError } from '../../errors.ts';
import type { OpenSqlite, SqliteDatabase, SqliteStatement, SqliteValue } from './library.ts';
import { failureKind } from './library.ts';
import { FORMAT, SCHEMA, SQL, type StatementName } from './schema.ts';

/** The log is written back to the database when it has grown past this. */
const LOG_BYTES_MAX = 4 * 1024 * 1024;

/** No waiting inside the library, no write-back of the log in the middle of a claim, and a log that shrinks again. */
const SETTINGS = `
PRAGMA busy_timeout = 0;
PRAGMA synchronous = NORMAL;
PRAGMA wal_autocheckpoint = 0;
PRAGMA journal_size_limit = 0;
`;

interface LogFile {
  readonly ino: number;
  readonly dev: number;
}

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
  readonly #log: LogFile | null;
  readonly bootNumber: number;
  #doubtful = false;
  #logBytes = 0;

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
      this.#log = path === null ? null : logFile(path);
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
    try {
      const result = work();
      this.#database.exec('COMMIT');
      this.#doubtful = false;
      return result;
    } catch (error) {
      this.#rollBack();
      throw error;
    }
  }

  /**
   * Whether what was written can be seen by others. POSIX drops a process's locks on a file when *any* descriptor of it is closed, for example by
   * reading the file for a copy; another process then takes itself for the last one and removes the log, into which this one would go on writing alone.
   */
  isShared(): boolean {
    if (this.#log === null) return true;
    const now = statSync(`${this.#path}-wal`, { throwIfNoEntry: false });
    if (now === undefined || now.ino !== this.#log.ino || now.dev !== this.#log.dev) return false;
    this.#logBytes = now.size;
    return true;
  }

  get wantsCheckpoint(): boolean {
    return this.#logBytes > LOG_BYTES_MAX;
  }

  /**
   * Writes the log back to the database. Done under the write lock from a second connection, so that no other process can begin the log anew meanwhile: SQLite
   * before 3.51.3 could lose a transaction when that happened during a checkpoint.
   */
  checkpoint(): void {
    this.#logBytes = 0;
    const second = this.#open(this.#path ?? ':memory:');
    try {
      second.exec(SETTINGS);
      this.transact(() => second.prepare('PRAGMA wal_checkpoint(PASSIVE)').all());
    } finally {
      second.close();
    }
  }

  close(): void {
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

function logFile(path: string): LogFile {
  return statSync(`${path}-wal`);
}

/** After these, the connection is opened anew: the file may have been replaced, or the disk mended. */
export function isFatal(error: unknown): boolean {
  return failureKind(error) !== 'busy' && failureKind(error) !== 'full';
}
