import { closeSync, fstatSync, openSync } from 'node:fs';
import { StoreError } from '../../errors.ts';
import type { OpenSqlite, SqliteDatabase, SqliteStatement, SqliteValue } from './client-library.ts';
import type { Host, Now } from './host-clock.ts';
import { FORMAT, SCHEMA, SQL, type StatementName } from './schema.ts';

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

/** One open database. No call waits: while another process writes, it throws "busy" at once. */
export class Connection {
  /** `null`: the claims exist only in this connection, so it cannot be reopened. */
  readonly path: string | null;
  /** To be run after the commit, when other processes can see what was written. */
  effects: (() => void)[] = [];
  /** COMMIT itself failed, for example because of an unfinished statement: reopen the database. */
  hasFailedCommit = false;
  readonly #host: Host;
  readonly #bootNumber: number;
  readonly #open: OpenSqlite;
  readonly #database: SqliteDatabase;
  readonly #isLent: boolean;
  readonly #statements = new Map<StatementName, SqliteStatement>();
  #log: number | null = null;
  #isInTransaction = false;

  constructor(open: OpenSqlite, path: string | null, host: Host, lent: SqliteDatabase | null) {
    this.#host = host;
    this.#open = open;
    this.path = path;
    this.#isLent = lent !== null;
    this.#database = lent ?? open(path ?? ':memory:');
    try {
      if (!this.#isLent) this.#database.exec(SETTINGS);
      if (path !== null) this.#useLog();
      this.#setUp();
      this.#bootNumber = this.#findBoot(host.bootId);
      // SQLite takes no locks on the log, so closing this descriptor drops none.
      if (path !== null) this.#log = openSync(`${path}-wal`, 'r');
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Read inside the transaction: only then is it later than everything that others have written. */
  now(): Now {
    return [this.#bootNumber, Math.floor(this.#host.monotonicMs()), Math.floor(this.#host.wallMs())];
  }

  run(name: StatementName, ...values: SqliteValue[]): number {
    return Number(this.#statement(name).run(...values).changes);
  }

  all<T>(name: StatementName, ...values: SqliteValue[]): T[] {
    return this.#statement(name).all(...values) as T[];
  }

  /** Runs several statements as one transaction, or as a part of the one that is already open. */
  transact<T>(work: () => T): T {
    if (this.#isInTransaction) return work();
    // Not a prepared statement, which libsql would leave unfinished when it fails.
    this.#database.exec('BEGIN IMMEDIATE');
    this.#isInTransaction = true;
    let isDone = false;
    try {
      const result = work();
      isDone = true;
      this.#database.exec('COMMIT');
      return result;
    } catch (error) {
      this.hasFailedCommit = isDone;
      try {
        this.#database.exec('ROLLBACK');
      } catch {
        // SQLite has already rolled back by itself after the worst failures.
      }
      throw error;
    } finally {
      this.#isInTransaction = false;
    }
  }

  /**
   * Whether other processes see what was written. POSIX drops a process's locks on a file when *any*
   * descriptor of it is closed, for example after reading the file for a copy. Another process may then
   * find no lock and remove the log, and this one would continue to write to it alone.
   */
  isVisibleToOthers(): boolean {
    return this.#log === null || fstatSync(this.#log).nlink > 0;
  }

  /**
   * Writes the log back. SQLite before 3.51.3 could lose a transaction when another process restarted
   * the log meanwhile. So a second connection does it under the write lock of this one.
   */
  writeBack(): void {
    if (this.path === null) return;
    const second = this.#open(this.path);
    try {
      second.exec(SETTINGS);
      this.transact(() => second.exec('PRAGMA wal_checkpoint(PASSIVE)'));
    } finally {
      second.close();
    }
  }

  facts() {
    return {
      library: this.#open.library,
      version: this.#select<string>('SELECT sqlite_version() AS value') ?? '',
      journalMode: this.#journalMode() ?? '',
    };
  }

  close(): void {
    if (this.#log !== null) closeSync(this.#log);
    if (this.#isLent) return;
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
        `SQLite store ${this.path ?? 'in memory'}: another version of holdfast has written it ` +
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
    const find = 'SELECT number AS value FROM holdfast_boot WHERE boot = ?';
    if (this.#select(find, bootId) === null) {
      this.transact(() => {
        // The leases of a boot that is not listed are judged by the wall clock, like those of any other.
        const last = '(SELECT max(number) FROM holdfast_boot)';
        this.#database.exec(`DELETE FROM holdfast_boot WHERE number <= ${last} - 100`);
        this.#database.prepare('INSERT OR IGNORE INTO holdfast_boot (boot) VALUES (?)').run(bootId);
      });
    }
    return this.#select(find, bootId) ?? 0;
  }
}
