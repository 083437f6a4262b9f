import { sqliteFenceGate } from '../../src/fence/index.ts';
import { findLibrary, type SqliteDatabase } from '../../src/stores/sqlite/client-library.ts';

/** The protected data: one balance in a database of its own, which refuses stale writes. */
export class Ledger {
  readonly #database: SqliteDatabase;

  constructor(path: string) {
    this.#database = findLibrary()(path);
    this.#database.exec('PRAGMA busy_timeout = 2000');
  }

  create(): void {
    this.#database.exec('CREATE TABLE ledger (balance INTEGER); INSERT INTO ledger VALUES (0)');
  }

  read(): number {
    return (this.#database.prepare('SELECT balance FROM ledger').all()[0] as { balance: number }).balance;
  }

  /**
   * The gate's check and the write are one transaction. Throws `StaleFenceError` when a later
   * holder has been here.
   */
  write(balance: number, fence: bigint): void {
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      sqliteFenceGate(this.#database).checkSync('ledger', fence);
      this.#database.prepare('UPDATE ledger SET balance = ?').run(balance);
      this.#database.exec('COMMIT');
    } catch (error) {
      this.#database.exec('ROLLBACK');
      throw error;
    }
  }

  close(): void {
    this.#database.close();
  }
}
