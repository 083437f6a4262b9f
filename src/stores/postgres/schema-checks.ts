import { fail, ok, unknown, type Verdict } from '../../store/finding.ts';
import { judgePrivileges } from '../shared/privileges.ts';
import type { Connection } from './connection.ts';
import type { Schema } from './schema.ts';

/** The schema as it is in the database. */
export interface FoundTables {
  /** `null`: there is no such schema. */
  readonly schemaId: string | null;
  readonly mayUse: boolean;
  /** The role may create what is missing. */
  readonly mayCreate: boolean;
  readonly hasMigrations: boolean;
  readonly mayReadMigrations: boolean;
}

/** What a role needs that does not own the schema (`docs/stores/postgres.md`). */
const NEEDED = [
  ['migrations', ['SELECT']],
  ['locks', ['SELECT', 'INSERT', 'UPDATE', 'DELETE']],
  ['shares', ['SELECT', 'INSERT', 'UPDATE', 'DELETE']],
  ['waiters', ['SELECT', 'INSERT', 'UPDATE', 'DELETE']],
  ['observers', ['SELECT', 'INSERT', 'UPDATE', 'DELETE']],
  ['floor', ['SELECT', 'UPDATE']],
] as const;

/** Reads the catalogue, which every role may read: a name of the schema itself may be refused. */
const FIND = `SELECT n.oid::text, has_schema_privilege(n.oid, 'USAGE')::text,
    has_schema_privilege(n.oid, 'CREATE')::text, (m.oid IS NOT NULL)::text,
    has_table_privilege(m.oid, 'SELECT')::text, has_database_privilege(current_database(), 'CREATE')::text
  FROM (SELECT) asked
  LEFT JOIN pg_namespace n ON n.nspname = $1
  LEFT JOIN pg_class m ON m.relnamespace = n.oid AND m.relname = 'migrations'`;

const MISSING_PRIVILEGES = `SELECT privilege || ' on ' || relname
  FROM pg_class, unnest($1::text::text[], $2::text::text[]) AS needed (name, privilege)
  WHERE relnamespace = $3::text::oid AND relname = name AND NOT has_table_privilege(oid, privilege)
  UNION ALL
  SELECT 'EXECUTE on ' || proname FROM pg_proc
  WHERE pronamespace = $3::text::oid AND NOT has_function_privilege(oid, 'EXECUTE')`;

export async function findTables(connection: Connection, { name }: Schema): Promise<FoundTables> {
  const [row] = await connection.run({ text: FIND, values: [name] });
  const [schemaId = null, mayUse, mayAdd, hasMigrations, mayReadMigrations, mayAddSchema] = row ?? [];
  return {
    schemaId,
    mayUse: mayUse === 'true',
    mayCreate: (schemaId === null ? mayAddSchema : mayAdd) === 'true',
    hasMigrations: hasMigrations === 'true',
    mayReadMigrations: mayUse === 'true' && mayReadMigrations === 'true',
  };
}

export async function checkMigrations(
  connection: Connection,
  schema: Schema,
  found: FoundTables,
): Promise<Verdict> {
  const { newest, migrates } = schema;
  const advice = `Run the script that "holdfast migrations --schema ${schema.name}" prints.`;
  if (found.hasMigrations && !found.mayReadMigrations)
    return unknown(
      `this role may not read ${schema.name}.migrations`,
      'The store cannot tell whether its tables are those of this version, and refuses every command.',
      `Grant USAGE on the schema ${schema.name} and SELECT on its table migrations.`,
    );
  const applied = found.hasMigrations ? await schema.applied(connection) : 0;
  if (applied >= newest)
    return ok(
      `migration ${applied} of ${newest} is applied in the schema ${schema.name}`,
      'The tables and functions are those of this version, or of a newer one.',
    );
  const state =
    applied === 0
      ? `the schema ${schema.name} has no tables of Holdfast`
      : `migration ${applied} of ${newest} is applied in the schema ${schema.name}`;
  if (migrates && found.mayCreate) return ok(state, 'The first command creates or updates them.');
  const why = migrates ? 'this role may not create them' : 'the option migrate is false';
  return fail(`${state}; ${why}`, 'The store refuses every command until the tables are there.', advice);
}

export async function checkPrivileges(
  connection: Connection,
  schema: Schema,
  { schemaId, mayUse }: FoundTables,
): Promise<Verdict> {
  const missing = mayUse ? [] : [`USAGE on the schema ${schema.name}`];
  const pairs = NEEDED.flatMap(([table, privileges]) => privileges.map((privilege) => [table, privilege]));
  const column = (n: number): string => `{${pairs.map((pair) => pair[n]).join(',')}}`;
  const rows = await connection.run({ text: MISSING_PRIVILEGES, values: [column(0), column(1), schemaId] });
  missing.push(...rows.map(([privilege]) => privilege ?? ''));
  return judgePrivileges('this role', missing, 'docs/stores/postgres.md');
}
