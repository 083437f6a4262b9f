import { InvalidArgumentError, UnsupportedError } from '../../errors.ts';
import { migrations } from '../../generated/mysql-migrations.ts';

const PREFIX = /^[a-z_][a-z0-9_]{0,39}$/;
/** The tables as the SQL files spell them. */
const SPELLED = /\bholdfast_(?=(?:migrations|locks|floor|fences)\b)/g;

export interface Migration {
  readonly id: number;
  /** MySQL takes one statement at a time. */
  readonly statements: readonly string[];
}

/** The tables in the user's database, and the SQL for them. */
export class Schema {
  readonly prefix: string;

  /**
   * Throws `InvalidArgumentError` for a prefix that is not plain, because it is put into SQL text.
   */
  constructor(prefix = 'holdfast_') {
    if (typeof prefix !== 'string' || !PREFIX.test(prefix)) {
      throw new InvalidArgumentError(
        'prefix',
        'must be 1 to 40 of a-z, 0-9 and _, and not begin with a digit',
      );
    }
    this.prefix = prefix;
  }

  /** SQL that was written for the prefix `holdfast_`, for this one. */
  sql(text: string): string {
    return text.replace(SPELLED, this.prefix);
  }

  get migrations(): readonly Migration[] {
    return migrations.map(({ id, name, text }) => {
      const done = `INSERT IGNORE INTO holdfast_migrations (id, name) VALUES (${id}, '${name}');\n`;
      return { id, statements: this.sql(text + done).split(/(?<=;)\n/) };
    });
  }

  /** Of all tables with this prefix in the connection's database. Names of locks end at 64 characters. */
  get migrationLock(): string {
    return `CONCAT(LEFT(SHA1(DATABASE()), 12), ':${this.prefix}')`;
  }

  /** What `migrate` does to an empty database, for teams that run their migrations themselves. */
  get script(): string {
    return `${this.migrations.map(({ statements }) => statements.join('\n')).join('\n')}`;
  }

  /**
   * The tables are missing, and may not be made here: by an option, or for the reason that the
   * server gave.
   */
  missing(why?: string): UnsupportedError {
    const reason = why === undefined ? '' : `, and this user may not make them: ${why}`;
    return new UnsupportedError(
      `The tables ${this.prefix}… of Holdfast are not in this database, ` +
        `or not those of this version${reason}. ` +
        'Have them made with what "holdfast migrations --store mysql://…" prints',
    );
  }
}
