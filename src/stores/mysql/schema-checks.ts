import { fail, ok, unknown, type Verdict } from '../../store/finding.ts';
import { judgePrivileges } from '../shared/privileges.ts';
import type { Connection } from './connection.ts';
import { failures } from './failure.ts';
import type { Schema } from './schema.ts';

/** Each needs one privilege, and neither reads nor writes a row. */
const PROBES: readonly (readonly [privilege: string, text: string])[] = [
  ['SELECT on holdfast_migrations', 'SELECT id FROM holdfast_migrations WHERE FALSE'],
  ['SELECT on holdfast_floor', 'SELECT fence FROM holdfast_floor WHERE FALSE'],
  ['UPDATE on holdfast_floor', 'UPDATE holdfast_floor SET fence = 0 WHERE FALSE'],
  ['SELECT on holdfast_locks', 'SELECT name FROM holdfast_locks WHERE FALSE'],
  [
    'INSERT on holdfast_locks',
    `INSERT INTO holdfast_locks (name, version, fence, granted_at, expires_at, ttl_ms, note)
      SELECT '', 0, 0, 0, 0, 0, '' FROM DUAL WHERE FALSE`,
  ],
  ['UPDATE on holdfast_locks', 'UPDATE holdfast_locks SET fence = 0 WHERE FALSE'],
  ['DELETE on holdfast_locks', 'DELETE FROM holdfast_locks WHERE FALSE'],
];

/** Privileges that the user has by a role are not listed here. */
const MAY_CREATE = `SELECT COUNT(*) FROM (
    SELECT GRANTEE, PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES
    UNION ALL
    SELECT GRANTEE, PRIVILEGE_TYPE FROM information_schema.SCHEMA_PRIVILEGES
    WHERE DATABASE() LIKE TABLE_SCHEMA
  ) own
  WHERE PRIVILEGE_TYPE = 'CREATE' AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')`;

export async function checkMigrations(connection: Connection, schema: Schema): Promise<Verdict> {
  const { newest, migrates } = schema;
  const applied = await readApplied(connection, schema);
  if (applied === null)
    return unknown(
      `this user may not read ${schema.name}migrations`,
      'The store cannot tell whether its tables are those of this version, and refuses every command.',
      `Grant SELECT on ${schema.name}migrations.`,
    );
  if (applied >= newest)
    return ok(
      `migration ${applied} of ${newest} is applied to the tables ${schema.name}…`,
      'The tables are those of this version, or of a newer one.',
    );
  const state =
    applied === 0
      ? `there are no tables ${schema.name}…`
      : `migration ${applied} of ${newest} is applied to the tables ${schema.name}…`;
  const advice = 'Run the script that "holdfast migrations --store mysql://…" prints.';
  if (!migrates)
    return fail(
      `${state}; the option migrate is false`,
      'The store refuses every command until the tables are there.',
      advice,
    );
  if (Number((await connection.run({ text: MAY_CREATE }))[0]?.[0]) > 0)
    return ok(state, 'The first command creates or updates them.');
  return unknown(
    `${state}; this user has no privilege of its own to create them`,
    'The store refuses every command until the tables are there, unless a role lets the user create them.',
    advice,
  );
}

/** `null`: this user may not read it. */
async function readApplied(connection: Connection, schema: Schema): Promise<number | null> {
  try {
    return await schema.applied(connection);
  } catch (error) {
    if (failures.kindOf(error) === 'denied') return null;
    throw error;
  }
}

export async function checkPrivileges(connection: Connection, schema: Schema): Promise<Verdict> {
  const missing: string[] = [];
  for (const [privilege, text] of PROBES) {
    try {
      await connection.run({ text: schema.sql(text) });
    } catch (error) {
      if (failures.kindOf(error) === 'tables')
        return ok('there are no tables yet', 'The user that creates the tables has every privilege.');
      if (failures.kindOf(error) !== 'denied') throw error;
      missing.push(schema.sql(privilege));
    }
  }
  return judgePrivileges('this user', missing, 'docs/stores/mysql.md');
}
