import { InvalidArgumentError, UnsupportedError } from '../../errors.ts';
import { errorText } from '../../util/error-text.ts';
import type { StatementRunner } from './limited-connection.ts';
import type { Failures } from './server-failure.ts';

/** A file of `migrations/`. */
export interface Migration {
  readonly id: number;
  readonly name: string;
  readonly text: string;
}

export interface MigratedSchemaOptions {
  /** The option that names the schema, and the value given for it. */
  readonly option: string;
  readonly name: string;
  /** Names become part of SQL text, so only plain ones are accepted. */
  readonly plain: RegExp;
  readonly rule: string;
  /** How the SQL files spell the name, and what stands there instead. */
  readonly spelled: RegExp;
  readonly spelling: string;
  readonly files: readonly Migration[];
  /** The table of applied migrations, and how a statement begins that adds one. */
  readonly table: string;
  readonly insert: string;
  /** Where the tables are missing, for the error text, and the command that prints them. */
  readonly place: string;
  readonly command: string;
  readonly migrates: boolean;
  readonly failures: Failures;
}

/** How long a migration may take, including the wait for another process that migrates. */
export const MIGRATE_MS = 60_000;

/** The tables of a store in the user's database, and the SQL for them. */
export abstract class MigratedSchema<Connection extends StatementRunner> {
  readonly name: string;
  /** Whether missing migrations are run. */
  readonly migrates: boolean;
  readonly #options: MigratedSchemaOptions;

  /** Throws `InvalidArgumentError` for any but a plain name. */
  constructor(options: MigratedSchemaOptions) {
    const { option, name, plain, rule, migrates } = options;
    if (typeof name !== 'string' || !plain.test(name)) throw new InvalidArgumentError(option, rule);
    this.#options = options;
    this.name = name;
    this.migrates = migrates;
  }

  /** Rewrites SQL for the default name to this one. */
  sql(text: string): string {
    const { spelled, spelling } = this.#options;
    return text.replace(spelled, spelling);
  }

  get migrations(): readonly Migration[] {
    const { files, insert, table } = this.#options;
    return files.map(({ id, name, text }) => {
      const mark = `${insert} ${table} (id, name) VALUES (${id}, '${name}');`;
      return { id, name, text: this.sql(`${text}\n${mark}\n`) };
    });
  }

  get newest(): number {
    return this.#options.files.at(-1)?.id ?? 0;
  }

  /** The error for missing tables that may not be created: by an option, or by the server (`why`). */
  missing(why?: string): UnsupportedError {
    const { place, command } = this.#options;
    const reason = why === undefined ? '' : `, and this user may not create them: ${why}`;
    return new UnsupportedError(
      `${place} has no tables of Holdfast, or those of an older version${reason}. ` +
        `Create them with the script that "${command}" prints`,
    );
  }

  /** Whether all migrations of this version were applied. Those of a newer version do not matter. */
  async isMigrated(connection: Connection): Promise<boolean> {
    return (await this.applied(connection)) >= this.newest;
  }

  /**
   * Applies the missing migrations. Any number of processes may call it at once: each waits for the one
   * before it, and then finds nothing to do. Rejects with `UnsupportedError` when this user lacks the
   * privileges. Any other failure is a definite no: migrations can be run again, and nothing else was
   * sent yet.
   */
  async migrate(connection: Connection): Promise<void> {
    try {
      await this.begin(connection);
      const applied = await this.applied(connection);
      for (const migration of this.migrations)
        if (migration.id > applied) await this.apply(connection, migration);
      await this.end(connection, true);
    } catch (error) {
      await this.end(connection, false).catch(() => {});
      const { failures } = this.#options;
      if (failures.kindOf(error) === 'denied') throw this.missing(errorText((error as Error).cause));
      throw failures.notBegun(error);
    }
  }

  /** The number of the last migration; 0 when there are no tables. */
  async applied(connection: Connection): Promise<number> {
    const { failures, table } = this.#options;
    try {
      const [row] = await connection.run({ text: this.sql(`SELECT max(id) FROM ${table}`) });
      return Number(row?.[0] ?? 0);
    } catch (error) {
      if (failures.kindOf(error) === 'tables') return 0;
      throw error;
    }
  }

  /** Waits until no other process migrates. */
  protected abstract begin(connection: Connection): Promise<unknown>;

  protected abstract apply(connection: Connection, migration: Migration): Promise<unknown>;

  protected abstract end(connection: Connection, isDone: boolean): Promise<unknown>;
}
