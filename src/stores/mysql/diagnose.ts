import { checkClock } from '../../store/clock-check.ts';
import {
  type Check,
  type DiagnoseContext,
  type Finding,
  runCheck,
  unknown,
  type Verdict,
} from '../../store/finding.ts';
import { onAbort } from '../../util/abort.ts';
import { type ConnectionLimit, judgeConnections } from '../shared/connection-limits.ts';
import { Connection, type ConnectionFactory } from './connection.ts';
import { errorNumberOf } from './failure.ts';
import type { Schema } from './schema.ts';
import { checkMigrations, checkPrivileges } from './schema-checks.ts';
import {
  type Facts,
  isWritable,
  judgeBinlogFormat,
  judgeDurability,
  judgeIsolation,
  judgeLockWait,
  judgeReplication,
  judgeTimeouts,
  judgeVersion,
  judgeWritable,
} from './server-checks.ts';

/** The store that is diagnosed. */
export interface DiagnosedStore {
  readonly factory: ConnectionFactory;
  readonly schema: Schema;
  /** How many connections one process opens at most. */
  readonly connections: number;
}

const READ_CLOCK = 'SELECT UNIX_TIMESTAMP(NOW(3)) * 1000';
const READ_USER_LIMIT = `SELECT @@max_user_connections, COUNT(*) FROM information_schema.PROCESSLIST
  WHERE USER = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)`;
/** The server demands a privilege that this user lacks. */
const SPECIFIC_ACCESS_DENIED = 1227;

/**
 * Looks at the server over a connection of its own, which also a read-only server or a server of an old
 * version gets. Rejects with a `StoreError` when there is no connection.
 */
export async function diagnose(store: DiagnosedStore, context: DiagnoseContext): Promise<readonly Finding[]> {
  const connection = await Connection.open(store.factory, { clock: context.clock, anyServer: true });
  const stop = onAbort(context.signal, () => connection.destroy());
  try {
    const findings: Finding[] = [];
    // One after the other: they share the connection.
    for (const { check, run } of checksOf(store, context, connection, await readFacts(connection))) {
      findings.push(await runCheck(context, check, run));
    }
    return findings;
  } finally {
    stop();
    await connection.close();
  }
}

function checksOf(
  { schema, connections }: DiagnosedStore,
  context: DiagnoseContext,
  connection: Connection,
  facts: Facts,
): readonly Check[] {
  const time = async (): Promise<number> => Number((await connection.run({ text: READ_CLOCK }))[0]?.[0]);
  const checks: Check[] = [
    { check: 'mysql-version', run: () => judgeVersion(facts.text('version')) },
    { check: 'mysql-writable', run: () => judgeWritable(facts) },
    { check: 'mysql-isolation', run: () => judgeIsolation(facts) },
    { check: 'mysql-durability', run: () => judgeDurability(facts) },
    { check: 'mysql-replication', run: () => checkReplication(connection, facts) },
    { check: 'mysql-binlog-format', run: () => judgeBinlogFormat(facts) },
    {
      check: 'mysql-connections',
      run: async () => judgeConnections(await readLimits(connection, facts), connections),
    },
    { check: 'mysql-timeouts', run: () => judgeTimeouts(facts) },
    { check: 'mysql-lock-wait', run: () => judgeLockWait(context.commandMs) },
    { check: 'clock-difference', run: () => checkClock(context, time) },
    { check: 'mysql-migrations', run: () => checkMigrations(connection, schema) },
  ];
  // A read-only server refuses the statements of this check, whatever the privileges are.
  if (isWritable(facts))
    checks.push({ check: 'mysql-privileges', run: () => checkPrivileges(connection, schema) });
  return checks;
}

/**
 * Settings of this session, which the server may limit for this user, except for those that the store
 * itself has set in this session.
 */
async function readFacts(connection: Connection): Promise<Facts> {
  const session = await connection.run({ text: 'SHOW SESSION VARIABLES' });
  const global = await connection.run({ text: "SHOW GLOBAL VARIABLES LIKE '%\\_isolation'" });
  const status = await connection.run({ text: 'SHOW GLOBAL STATUS' });
  const entries = [...session, ...global, ...status];
  const values = new Map(entries.map(([name, value]) => [String(name).toLowerCase(), String(value ?? '')]));
  return {
    text: (name) => values.get(name) ?? '',
    number: (name) => Number(values.get(name) ?? 0),
    has: (name) => values.has(name),
    isOn: (name) => ['ON', '1', 'YES'].includes((values.get(name) ?? '').toUpperCase()),
  };
}

async function checkReplication(connection: Connection, facts: Facts): Promise<Verdict> {
  // MariaDB counts its replicas in a status variable. MySQL lists them, for some users only.
  if (!facts.isOn('log_bin') || facts.has('slaves_connected'))
    return judgeReplication(facts, facts.number('slaves_connected'));
  try {
    return judgeReplication(facts, (await connection.run({ text: 'SHOW REPLICAS' })).length);
  } catch (error) {
    if (errorNumberOf(error) !== SPECIFIC_ACCESS_DENIED) throw error;
    return unknown(
      'this user may not list the replicas',
      'A failover to an asynchronous replica can forget the last grants: two processes then hold one lock.',
      'Grant REPLICATION SLAVE to the user, and run the diagnosis again.',
    );
  }
}

async function readLimits(connection: Connection, facts: Facts): Promise<readonly ConnectionLimit[]> {
  const server = {
    of: 'the server',
    max: facts.number('max_connections'),
    used: facts.number('threads_connected'),
  };
  if (facts.number('max_user_connections') === 0) return [server];
  const [row] = await connection.run({ text: READ_USER_LIMIT });
  const [max, used] = (row ?? []).map(Number);
  return [server, { of: 'the user', max: max ?? 0, used: used ?? 0 }];
}
