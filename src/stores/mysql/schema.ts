import { migrations } from '../../generated/mysql-migrations.ts';
import { MIGRATE_MS, MigratedSchema, type Migration } from '../shared/migrated-schema.ts';
import type { Connection } from './connection.ts';
import { errorNumberOf, failures } from './failure.ts';

/** The table, the column or the index is there already. */
const IS_THERE = new Set([1050, 1060, 1061]);

/** The tables in the user's database whose names begin with a prefix. */
export class Schema extends MigratedSchema<Connection> {
  protected readonly waitMs: number = MIGRATE_MS;

  constructor(prefix = 'holdfast_', migrates = true) {
    super({
      option: 'prefix',
      name: prefix,
      plain: /^[a-z_][a-z0-9_]{0,39}$/,
      rule: 'must be 1 to 40 of a-z, 0-9 and _, and not begin with a digit',
      spelled: /\bholdfast_(?=(?:migrations|locks|floor|fences)\b)/g,
      spelling: prefix,
      files: migrations,
      table: 'holdfast_migrations',
      insert: 'INSERT IGNORE INTO',
      place: `The database, with the prefix ${prefix},`,
      command: 'holdfast migrations --store mysql://…',
      migrates,
      failures,
    });
  }

  /** Of all tables with this prefix in the connection's database. Names of locks end at 64 characters. */
  get migrationLock(): string {
    return `CONCAT(LEFT(SHA1(DATABASE()), 12), ':${this.name}')`;
  }

  /** What `migrate` does to an empty database, for teams that run their migrations themselves. */
  get script(): string {
    return this.migrations.map(({ text }) => text).join('\n');
  }

  protected async begin(connection: Connection): Promise<void> {
    const text = `SELECT GET_LOCK(${this.migrationLock}, ${this.waitMs / 1_000})`;
    const [row] = await connection.run({ text }, this.waitMs + 5_000);
    // 0: the time is over. NULL: the server ended the wait.
    if (Number(row?.[0]) !== 1) throw failures.notSent('another process is still migrating the tables');
  }

  /**
   * MySQL takes one statement at a time, and commits each that changes a table. A migration that was
   * interrupted is run again from its beginning, and MySQL has no `ADD COLUMN IF NOT EXISTS`.
   */
  protected async apply(connection: Connection, { text }: Migration): Promise<void> {
    for (const each of text.split(/(?<=;)\n/).filter((statement) => statement.trim() !== ''))
      await connection.run({ text: each }, MIGRATE_MS).catch((error: unknown) => {
        if (!IS_THERE.has(errorNumberOf(error) ?? 0)) throw error;
      });
  }

  protected end(connection: Connection): Promise<unknown> {
    return connection.run({ text: `SELECT RELEASE_LOCK(${this.migrationLock})` });
  }
}
