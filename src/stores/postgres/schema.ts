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

/**
 * What is no grant and no renewal need not be on the disk before it is answered: a release that a crash of the server undoes ends with its lease, and a place that is gone is taken again.
 * Every statement is a transaction of its own, so this reaches no further.
 */
const LIGHTLY = "set_config('synchronous_commit', 'off', true)";

interface Prepared {
  readonly name: string;
  readonly text: string;
}

interface Calls {
  /** An exclusive claim without a note, alone in its tick. */
  readonly claim: Prepared;
  readonly renew: Prepared;
  readonly release: Prepared;
  readonly batch: Prepared;
  readonly batchAnywhere: Prepared;
}

/** A schema of our own in the user's database, and the SQL in it. */
export class Schema {
  /** As SQL wants it. */
  readonly quoted: string;
  readonly name: string;
  /** The statements that carry the operations of one tick. */
  readonly calls: Calls;

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
    const call = (short: string, called: string, isLight: string): Prepared => ({
      name: `holdfast_${short}`,
      text: this.sql(
        `SELECT answer, CASE WHEN ${isLight} THEN ${LIGHTLY} END FROM (SELECT holdfast.${called} AS answer) asked`,
      ),
    });
    const values = '$1, $2, $3, $4, $5, $6, $7, $8, $9, $10';
    const isLight = "answer !~ '[gn]' AND strpos($1, 'r') = 0";
    this.calls = {
      claim: call('claim', "claim_one($1, $2, $3, $4, 0, 0, '', $5, $6, $7)", "answer !~ '^[gn]'"),
      renew: call('renew', 'renew_one($1, $2, $3, NULL)', 'false'),
      release: call('release', 'release_one($1, $2)', 'true'),
      batch: call('batch', `batch(${values})`, isLight),
      batchAnywhere: call('anywhere', `batch_anywhere(${values})`, isLight),
    };
  }

  /** Nothing was made, because nobody wants it made by us, or because of what the server said. */
  missing(why?: string): UnsupportedError {
    const reason = why === undefined ? '' : `, and this user may not make them: ${why}`;
    return new UnsupportedError(
      `The tables of Holdfast are not in schema ${this.name}, or not those of this version${reason}. ` +
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
