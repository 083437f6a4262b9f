import { closeSync, fstatSync, openSync } from 'node:fs';
import { StoreError } from '../../errors.ts';
import type { OpenSqlite, SqliteDatabase, SqliteStatement, SqliteValue } from './client-library.ts';
import { FORMAT, SCHEMA, SQL, type StatementName } from './schema.ts';

/** Each process reports its writes in steps; the log is written back after this many of all processes. */
const WRITES_STEP = 128;
const WRITES_MAX = 1_024;

/**
 * No waiting inside the library. A new file gets small pages: a claim is a short row, and each write
 * copies a page into the log. This store writes the log back, long before SQLite would.
 */
const SETTINGS = `
PRAGMA page_size = 1024;
PRAGMA busy_timeout = 0;
PRAGMA synchronous = NORMAL;
PRAGMA wal_autocheckpoint = 10000;
`;

/** What the checks of `diagnose` show. */
export interface ConnectionFacts {
  readonly library: string;
  readonly version: string;
  readonly journalMode: string;
}

/**
 * One open database with its prepared statements. Every call is synchronous and short, and none waits:
 * while another process writes, a call throws "busy" at once.
 */
export class Connection {
  readonly #database: SqliteDatabase;
  readonly #statements = new Map<StatementName, SqliteStatement>();
  readonly #owned: boolean;
  readonly #path: string | null;
  readonly #open: OpenSqlite;
  #log: number | null = null;
  readonly bootNumber: number;
  /**
   * Set after a statement failed, until a COMMIT succeeds. libsql leaves such a statement half-way, and
   * until it has run again, statements outside a transaction seem to succeed without being committed.
   */
  mayNotCommit = false;
  /** COMMIT itself failed, for example because of a statement left half-way: reopen the database. */
  hasFailedCommit = false;
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
      // SQLite takes no locks on the log, so closing this descriptor drops none.
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

  transact<T>(work: () => T): T {
    // Not a prepared statement: see `mayNotCommit`.
    this.#database.exec('BEGIN IMMEDIATE');
    let isDone = false;
    try {
      const result = work();
      isDone = true;
      this.#database.exec('COMMIT');
      this.mayNotCommit = false;
      return result;
    } catch (error) {
      this.hasFailedCommit = isDone;
      this.#rollBack();
      throw error;
    }
  }

  /** Whether the claims exist only in this connection, so that it cannot be reopened. */
  get isOnlyCopy(): boolean {
    return this.#owned && this.#path === null;
  }

  /**
   * Whether other processes see what was written. POSIX drops a process's locks on a file when *any*
   * descriptor of it is closed, for example after reading the file for a copy. Another process may then
   * think that it is the last one and remove the log, and this one would go on writing to it alone.
   */
  isVisibleToOthers(): boolean {
    return this.#log === null || fstatSync(this.#log).nlink > 0;
  }

  afterBatch(): void {
    this.#writes += 1;
    if (this.#writes >= WRITES_STEP) this.writeBack();
  }

  /** Adds this process's writes to those of all, and writes the log back when they are many. */
  writeBack(): void {
    if (this.#path === null) return;
    const isDue = this.transact(() => {
      const total = this.all<{ count: number }>('countWrites', this.#writes)[0]?.count ?? 0;
      return total >= WRITES_MAX && this.run('resetWrites') === 1;
    });
    this.#writes = 0;
    if (isDue) this.#checkpoint();
  }

  /**
   * SQLite before 3.51.3 could lose a transaction when another process restarted the log during a
   * checkpoint. There a second connection makes the checkpoint under the write lock of this one.
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
    const version = this.#select<string>('SELECT sqlite_version() AS value') ?? '';
    const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number);
    return major > 3 || (major === 3 && (minor > 51 || (minor === 51 && patch >= 3)));
  }

  /** The library, its version of SQLite, and how it writes the file. */
  facts(): ConnectionFacts {
    return {
      library: this.#open.library,
      version: this.#select<string>('SELECT sqlite_version() AS value') ?? '',
      journalMode: this.#journalMode() ?? '',
    };
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
    try {
      this.#database.exec('ROLLBACK');
    } catch {
      // SQLite has already rolled back by itself after the worst failures.
    }
  }

  #useLog(): void {
    if (this.#journalMode() === 'wal') return;
    this.#database.exec('PRAGMA journal_mode = WAL');
    if (this.#journalMode() !== 'wal')
      throw new StoreError('SQLite could not switch to write-ahead logging here', { applied: 'no' });
  }

  #journalMode(): string | null {
    return this.#select('SELECT journal_mode AS value FROM pragma_journal_mode');
  }

  /** Reads first, so that opening an existing file needs no write lock. */
  #setUp(): void {
    if (this.#format() === null) this.transact(() => this.#database.exec(SCHEMA));
    const format = this.#format();
    if (format !== String(FORMAT)) {
      throw new StoreError(
        `SQLite store ${this.#path ?? 'in memory'}: another version of holdfast has written it ` +
          `(its format is ${format}, this version knows ${FORMAT})`,
        { applied: 'no' },
      );
    }
  }

  #format(): string | null {
    const table = "SELECT name AS value FROM sqlite_master WHERE type = 'table' AND name = 'holdfast_meta'";
    if (this.#select(table) === null) return null;
    return this.#select("SELECT value FROM holdfast_meta WHERE key = 'format'");
  }

  /** The column `value` of the first row. */
  #select<T>(sql: string, ...values: SqliteValue[]): T | null {
    const [row] = this.#database.prepare(sql).all(...values) as { value: T }[];
    return row?.value ?? null;
  }

  #findBoot(bootId: string): number {
    const find = (): number | null =>
      this.#select('SELECT number AS value FROM holdfast_boot WHERE boot = ?', bootId);
    const known = find();
    if (known !== null) return known;
    this.transact(() => {
      // The leases of a boot that is not listed are judged by the wall clock, like those of any other.
      this.#database.exec(
        'DELETE FROM holdfast_boot WHERE number <= (SELECT max(number) FROM holdfast_boot) - 100',
      );
      this.#database.prepare('INSERT OR IGNORE INTO holdfast_boot (boot) VALUES (?)').run(bootId);
    });
    return find() ?? 0;
  }
}
