import { checkClock } from '../../store/clock-check.ts';
import {
  type Check,
  type DiagnoseContext,
  type Finding,
  runCheck,
  type Verdict,
} from '../../store/finding.ts';
import { onAbort } from '../../util/abort.ts';
import { type ConnectionLimit, judgeConnections } from '../shared/connection-limits.ts';
import { Connection, type ConnectionFactory } from './connection.ts';
import { sharesBackends } from './pooler.ts';
import type { Schema } from './schema.ts';
import { checkMigrations, checkPrivileges, findTables } from './schema-checks.ts';
import {
  type Facts,
  judgeDurability,
  judgeEncoding,
  judgeIsolation,
  judgeLockTable,
  judgePooler,
  judgeReplication,
  judgeSynchronousCommit,
  judgeTimeouts,
  judgeVersion,
  judgeWritable,
  type PoolerMode,
  type Standby,
} from './server-checks.ts';

/** The store that is diagnosed. */
export interface DiagnosedStore {
  readonly factory: ConnectionFactory;
  /** How many connections one process needs. */
  readonly connections: number;
  /** Of a lease store; `null`: an advisory store. */
  readonly schema: Schema | null;
}

const SETTINGS = [
  ...['server_version', 'server_version_num', 'server_encoding', 'default_transaction_isolation'],
  ...['default_transaction_read_only', 'fsync', 'full_page_writes', 'synchronous_commit'],
  ...['synchronous_standby_names', 'idle_session_timeout', 'statement_timeout', 'transaction_timeout'],
  ...['max_connections', 'superuser_reserved_connections', 'reserved_connections'],
  ...['max_prepared_transactions', 'max_locks_per_transaction'],
];

const READ_SETTINGS = `SELECT name, setting FROM pg_settings WHERE name = ANY ('{${SETTINGS.join(',')}}')`;

const READ_ROLE =
  'SELECT pg_is_in_recovery()::text, rolsuper::text FROM pg_roles WHERE rolname = current_user';

/** Sessions of clients: other processes of the server have no database or no role. */
const READ_LIMITS = `WITH session AS (
    SELECT datid, usesysid FROM pg_stat_activity WHERE datid IS NOT NULL AND usesysid IS NOT NULL
  )
  SELECT (SELECT count(*) FROM session)::text,
    rolconnlimit::text, (SELECT count(*) FROM session WHERE usesysid = r.oid)::text,
    datconnlimit::text, (SELECT count(*) FROM session WHERE datid = d.oid)::text
  FROM pg_roles r, pg_database d WHERE rolname = current_user AND datname = current_database()`;

/** Without the privilege to see it, the state is null. A backup is no standby. */
const READ_STANDBYS = `SELECT state, sync_state FROM pg_stat_replication
  WHERE state IS NULL OR state IN ('startup', 'catchup', 'streaming')`;

const COUNT_LOCKS = "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory'";

const READ_CLOCK = 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::text';

/**
 * Looks at the server over a connection of its own, which also a standby or a server of an old version
 * gets. Rejects with a `StoreError` when there is no connection.
 */
export async function diagnose(store: DiagnosedStore, context: DiagnoseContext): Promise<readonly Finding[]> {
  const { clock, limitMs: connectMs, signal } = context;
  const open = (): Promise<Connection> =>
    Connection.open(store.factory, { clock, connectMs, anyServer: true });
  const connection = await open();
  const stop = onAbort(signal, () => connection.destroy());
  try {
    const findings: Finding[] = [];
    // One after the other: they share the connection.
    for (const { check, run } of await checksOf(store, context, connection, open)) {
      findings.push(await runCheck(context, check, run));
    }
    return findings;
  } finally {
    stop();
    await connection.close();
  }
}

async function checksOf(
  { schema, connections }: DiagnosedStore,
  context: DiagnoseContext,
  connection: Connection,
  open: () => Promise<Connection>,
): Promise<readonly Check[]> {
  const isLease = schema !== null;
  const facts = await readFacts(connection, isLease);
  const one = async (text: string): Promise<readonly (string | null)[]> =>
    (await connection.run({ text }))[0] ?? [];
  const inBoth: Check[] = [
    { check: 'postgres-version', run: () => judgeVersion(facts) },
    { check: 'postgres-writable', run: () => judgeWritable(facts) },
    { check: 'postgres-pooler', run: async () => judgePooler(await poolerMode(connection, open), isLease) },
    { check: 'postgres-isolation', run: () => judgeIsolation(facts) },
    {
      check: 'postgres-connections',
      run: async () => judgeConnections(limitsOf(await one(READ_LIMITS), facts), connections),
    },
    {
      check: 'postgres-replication',
      run: async () => judgeReplication(facts, await readStandbys(connection)),
    },
    {
      check: 'clock-difference',
      run: () => checkClock(context, async () => Number((await one(READ_CLOCK))[0])),
    },
  ];
  if (schema === null) {
    const count = async (): Promise<Verdict> => judgeLockTable(facts, Number((await one(COUNT_LOCKS))[0]));
    return [...inBoth, { check: 'postgres-lock-table', run: count }];
  }
  const found = await findTables(connection, schema);
  const checks: Check[] = [
    ...inBoth,
    { check: 'postgres-durability', run: () => judgeDurability(facts) },
    { check: 'postgres-synchronous-commit', run: () => judgeSynchronousCommit(facts) },
    { check: 'postgres-timeouts', run: () => judgeTimeouts(facts) },
    { check: 'postgres-encoding', run: () => judgeEncoding(facts) },
    { check: 'postgres-migrations', run: () => checkMigrations(connection, schema, found) },
  ];
  // Of tables that the store creates later, it has every privilege.
  if (found.hasMigrations)
    checks.push({ check: 'postgres-privileges', run: () => checkPrivileges(connection, schema, found) });
  return checks;
}

async function readFacts(connection: Connection, isLease: boolean): Promise<Facts> {
  const rows = await connection.run({ text: READ_SETTINGS });
  const settings = new Map(rows.map(([name, setting]) => [name ?? '', setting ?? '']));
  const [role] = await connection.run({ text: READ_ROLE });
  return {
    isLease,
    isDirect: connection.isDirect,
    isStandby: role?.[0] === 'true',
    isSuperuser: role?.[1] === 'true',
    text: (name) => settings.get(name) ?? '',
    number: (name) => Number(settings.get(name) ?? 0),
  };
}

async function poolerMode(connection: Connection, open: () => Promise<Connection>): Promise<PoolerMode> {
  if (connection.isDirect) return 'none';
  const other = await open();
  try {
    return (await sharesBackends(connection, other)) ? 'transaction' : 'session';
  } finally {
    await other.close();
  }
}

/** The limits of the server, the role and the database, as far as they apply to this role. */
function limitsOf(
  row: readonly (string | null)[],
  { isSuperuser, number }: Facts,
): readonly ConnectionLimit[] {
  const [used, roleMax, roleUsed, databaseMax, databaseUsed] = row.map(Number);
  const reserved = number('superuser_reserved_connections') + number('reserved_connections');
  const max = number('max_connections') - (isSuperuser ? 0 : reserved);
  const server = { of: 'the server', max, used: used ?? 0 };
  const own = [
    { of: 'the role', max: roleMax ?? -1, used: roleUsed ?? 0 },
    { of: 'the database', max: databaseMax ?? -1, used: databaseUsed ?? 0 },
  ];
  return [server, ...own.filter((limit) => limit.max >= 0 && !isSuperuser)];
}

async function readStandbys(connection: Connection): Promise<readonly Standby[]> {
  const rows = await connection.run({ text: READ_STANDBYS });
  return rows.map(([state = null, sync = null]) => ({
    isVisible: state !== null,
    isSynchronous: sync === 'sync' || sync === 'quorum',
  }));
}
