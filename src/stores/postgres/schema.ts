import { migrations } from '../../generated/postgres-migrations.ts';
import { MIGRATE_MS, MigratedSchema, type Migration } from '../shared/migrated-schema.ts';
import type { Connection, Statement } from './connection.ts';
import { failures } from './failure.ts';

/**
 * Only grants and renewals must be on disk before they are answered. A release that a crash of the
 * server undoes ends with its lease, and a lost queue position is taken again. The setting ends with
 * the transaction, and every statement is one.
 */
const WITHOUT_DISK_WAIT = "set_config('synchronous_commit', 'off', true)";

const DEFAULT = 'holdfast';

/**
 * `claim`, `renew` and `release` carry one operation; `claim` only an exclusive claim without a note.
 */
type Call = 'claim' | 'renew' | 'release' | 'batch' | 'batchAnywhere';

/** The schema in the user's database that has the tables and functions, and the SQL for it. */
export class Schema extends MigratedSchema<Connection> {
  readonly quoted: string;
  readonly calls: Readonly<Record<Call, Statement>>;

  constructor(name = DEFAULT, migrates = true) {
    super({
      option: 'schema',
      name,
      plain: /^(?!pg_)[a-z_][a-z0-9_]{0,39}$/,
      rule: 'must be 1 to 40 of a-z, 0-9 and _, must not begin with a digit or pg_',
      // Inside quotes it is a setting or a text, and stays.
      spelled: /(?<!['\w.])holdfast\./g,
      spelling: `"${name}".`,
      files: migrations,
      table: 'holdfast.migrations',
      insert: 'INSERT INTO',
      place: `The schema ${name}`,
      command: name === DEFAULT ? 'holdfast migrations' : `holdfast migrations --schema ${name}`,
      migrates,
      failures,
    });
    this.quoted = `"${name}"`;
    const call = (short: string, called: string, skipsDisk: string): Statement => ({
      name: `holdfast_${short}`,
      text: this.sql(
        `SELECT answer, CASE WHEN ${skipsDisk} THEN ${WITHOUT_DISK_WAIT} END
          FROM (SELECT holdfast.${called} AS answer) asked`,
      ),
    });
    const values = '$1, $2, $3, $4, $5, $6, $7, $8, $9, $10';
    const skipsDisk = "answer !~ '[gn]' AND strpos($1, 'r') = 0";
    this.calls = {
      claim: call('claim', "claim_one($1, $2, $3, $4, 0, 0, '', $5, $6, $7)", "answer !~ '^[gn]'"),
      renew: call('renew', 'renew_one($1, $2, $3, NULL)', 'false'),
      release: call('release', 'release_one($1, $2)', 'true'),
      batch: call('batch', `batch(${values})`, skipsDisk),
      batchAnywhere: call('anywhere', `batch_anywhere(${values})`, skipsDisk),
    };
  }

  /**
   * SQL that creates the schema and its table of migrations where they are missing. A user that may not
   * create a schema can use an existing one.
   */
  get creation(): string {
    const { quoted } = this;
    return `DO $$ BEGIN
  IF to_regnamespace('${quoted}') IS NULL THEN CREATE SCHEMA ${quoted}; END IF;
  IF to_regclass('${quoted}.migrations') IS NULL THEN
    CREATE TABLE ${quoted}.migrations (
      id integer PRIMARY KEY,
      name text NOT NULL,
      applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
    );
  END IF;
END $$;
`;
  }

  /** Taken first, and held to the end of the transaction, so that one process at a time migrates. */
  get migrationLock(): string {
    return `SELECT pg_advisory_xact_lock(hashtextextended('holdfast migrations of ${this.name}', 0));\n`;
  }

  /** What `migrate` does, for teams that run their migrations themselves. May be run again. */
  get script(): string {
    const parts = this.migrations.map(
      ({ id, name, text }) => `-- ${name}
DO $migration$ BEGIN
IF NOT EXISTS (SELECT FROM ${this.quoted}.migrations WHERE id = ${id}) THEN
EXECUTE $text$
${text}$text$;
END IF;
END $migration$;
`,
    );
    return [
      'BEGIN ISOLATION LEVEL READ COMMITTED;\n',
      this.migrationLock,
      this.creation,
      ...parts,
      'COMMIT;\n',
    ].join('\n');
  }

  /** All migrations are one transaction. */
  protected async begin(connection: Connection): Promise<void> {
    await connection.run({ text: 'BEGIN ISOLATION LEVEL READ COMMITTED' });
    await connection.run({ text: this.migrationLock }, MIGRATE_MS);
    await connection.run({ text: this.creation });
  }

  protected apply(connection: Connection, { text }: Migration): Promise<unknown> {
    return connection.run({ text }, MIGRATE_MS);
  }

  protected end(connection: Connection, isDone: boolean): Promise<unknown> {
    return connection.run({ text: isDone ? 'COMMIT' : 'ROLLBACK' });
  }
}
