import { InvalidArgumentError, UnsupportedError } from '../../errors.ts';
import { migrations } from '../../generated/postgres-migrations.ts';

const SCHEMA = /^(?!pg_)[a-z_][a-z0-9_]{0,39}$/;
/** The schema as the SQL files spell it. Within quotes it is another thing, a setting or a text. */
const SPELLED = /(?<!['\w.])holdfast\./g;

export interface Migration {
  readonly id: number;
  readonly name: string;
  /** Statements to be run in one transaction. */
  readonly text: string;
}

/** A schema of our own in the user's database, and the SQL in it. */
export class Schema {
  /** As SQL wants it. */
  readonly quoted: string;
  readonly name: string;
  readonly #batch: { readonly text: string; readonly name: string };
  readonly #batchAnywhere: { readonly text: string; readonly name: string };

  /** Throws `InvalidArgumentError` for a name that is not plain: it stands in SQL as it is. */
  constructor(name = 'holdfast') {
    if (typeof name !== 'string' || !SCHEMA.test(name)) {
      throw new InvalidArgumentError(
        'schema',
        'must be 1 to 40 of a-z, 0-9 and _, must not begin with a digit or pg_',
      );
    }
    this.name = name;
    this.quoted = `"${name}"`;
    const values = '$1, $2, $3, $4, $5, $6, $7, $8, $9, $10';
    this.#batch = { text: this.sql(`SELECT holdfast.batch(${values})`), name: 'holdfast_batch' };
    this.#batchAnywhere = { ...this.#batch, text: this.sql(`SELECT holdfast.batch_anywhere(${values})`) };
  }

  /** The statement that carries all operations of one tick. */
  batch(isSetUp: boolean): { readonly text: string; readonly name: string } {
    return isSetUp ? this.#batch : this.#batchAnywhere;
  }

  /** Nothing was made, because nobody wants it made by us. */
  missing(): UnsupportedError {
    return new UnsupportedError(
      `The tables of Holdfast are not in schema ${this.name}, or not those of this version. ` +
        'Have them made with what "holdfast migrations" prints',
    );
  }

  /** Our SQL, written for the schema `holdfast`, for this one. */
  sql(text: string): string {
    return text.replace(SPELLED, `${this.quoted}.`);
  }

  get migrations(): readonly Migration[] {
    return migrations.map(({ id, name, text }) => {
      const done = `INSERT INTO holdfast.migrations (id, name) VALUES (${id}, '${name}');\n`;
      return { id, name, text: this.sql(`${text}\n${done}`) };
    });
  }

  /** Makes the schema, where there is none; whoever may not make one can use one that is there. */
  get creation(): string {
    const { quoted } = this;
    return `DO $$ BEGIN IF to_regnamespace('${quoted}') IS NULL THEN CREATE SCHEMA ${quoted}; END IF; END $$;\n`;
  }

  /** Everybody who migrates takes this lock first, so that twenty who start at once do it once. Held to the end of the transaction. */
  get migrationLock(): string {
    return `SELECT pg_advisory_xact_lock(hashtextextended('holdfast migrations of ${this.name}', 0));\n`;
  }

  /** All that `migrate` would do to an empty database, for teams that run their migrations themselves. */
  get script(): string {
    const parts = this.migrations.map(({ name, text }) => `-- ${name}\n${text}`);
    return ['BEGIN;\n', this.migrationLock, this.creation, ...parts, 'COMMIT;\n'].join('\n');
  }
}
