import mysql from 'mysql2';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openLocks } from '../../src/index.ts';
import { mysqlStore } from '../../src/stores/mysql/index.ts';
import { judgeReplication, judgeVersion } from '../../src/stores/mysql/server-checks.ts';
import { type ClockShim, makeClockShim } from '../../src/torture/servers/clock-shim.ts';
import { diagnose, expectProblems, findingOf, problemsIn } from '../support/doctor/findings.ts';
import { findingsAt, problemsAt, storeFindings } from '../support/doctor/store-findings.ts';
import { type MysqlServer, startMysql } from '../support/servers/mysql.ts';
import { eventually } from '../support/waiting/eventually.ts';

const CHECKS = [
  'mysql-version',
  'mysql-writable',
  'mysql-isolation',
  'mysql-durability',
  'mysql-replication',
  'mysql-binlog-format',
  'mysql-connections',
  'mysql-timeouts',
  'mysql-lock-wait',
  'clock-difference',
  'mysql-migrations',
  'mysql-privileges',
];

/** The privileges that docs/stores/mysql.md lists. */
const PRIVILEGES = [
  'SELECT ON shop.holdfast_migrations',
  'SELECT, UPDATE ON shop.holdfast_floor',
  'SELECT, INSERT, UPDATE, DELETE ON shop.holdfast_locks',
];

let shim: ClockShim;
let good: MysqlServer;
let replica: MysqlServer;
beforeAll(async () => {
  shim = makeClockShim();
  const durable = { 'innodb-flush-log-at-trx-commit': '1', 'sync-binlog': '1' };
  [good, replica] = await Promise.all([
    startMysql({ settings: { ...durable, 'log-bin': 'log', 'server-id': '1' }, env: shim.env }),
    startMysql({ settings: { ...durable, 'server-id': '2' } }),
  ]);
  await good.query('CREATE DATABASE shop');
  await using locks = await openLocks(urlOf('root'));
  await (await locks.mutex('first').acquire()).release();
}, 60_000);
afterAll(async () => {
  await Promise.all([good.stop(), replica.stop()]);
  shim.remove();
});

function urlOf(user: string, database = 'shop'): string {
  return `mysql://${user}@127.0.0.1:${good.port}/${database}`;
}

async function createUser(user: string, privileges = PRIVILEGES): Promise<string> {
  await good.query(`CREATE USER ${user} IDENTIFIED BY 'pass-word'`);
  for (const privilege of privileges) await good.query(`GRANT ${privilege} TO ${user}`);
  return urlOf(`${user}:pass-word`);
}

describe('a MariaDB server', () => {
  it('that is set up well has no problems, and no finding repeats the password', async () => {
    const findings = await findingsAt(await createUser('fine'));
    expect(problemsIn(findings)).toEqual([]);
    expect(findings.map(({ check }) => check)).toEqual(CHECKS);
    expect(JSON.stringify(findings)).not.toContain('pass-word');
    const all = (await diagnose(urlOf('root'))).map(({ check }) => check);
    expect(all.slice(-CHECKS.length)).toEqual(CHECKS);
    expect(all).toContain('store-answers');
  });

  it.each([
    ['isolation', 'tx_isolation', "'READ-UNCOMMITTED'", 'warn'],
    ['durability', 'innodb_flush_log_at_trx_commit', '2', 'warn'],
    ['durability', 'sync_binlog', '0', 'warn'],
    ['binlog-format', 'binlog_format', "'STATEMENT'", 'warn'],
    ['timeouts', 'wait_timeout', '10', 'warn'],
    ['timeouts', 'max_statement_time', '1.9', 'warn'],
    ['writable', 'read_only', '1', 'fail'],
  ])('has the problem mysql-%s with %s = %s', async (check, setting, value, level) => {
    const [row] = await good.query<{ was: unknown }>(`SELECT @@GLOBAL.${setting} AS was`);
    await good.query(`SET GLOBAL ${setting} = ${value}`);
    try {
      expect(await problemsAt(urlOf('root'))).toEqual([`mysql-${check}: ${level}`]);
    } finally {
      await good.query(`SET GLOBAL ${setting} = ?`, [row?.was]);
    }
  });

  it('leaves a user few connections', async () => {
    const url = await createUser('limited');
    await good.query('GRANT USAGE ON *.* TO limited WITH MAX_USER_CONNECTIONS 2');
    const findings = await findingsAt(url);
    expect(problemsIn(findings)).toEqual(['mysql-connections: warn']);
    expect(findingOf(findings, 'mysql-connections').found).toMatch(/^1 of the 2 connections of the user/);
  });

  it('answers a locked row later than a command may take', async () => {
    await expectProblems(() => findingsAt(urlOf('root'), { commandMs: 3_000 }), ['mysql-lock-wait: warn']);
    // What counts is the setting, and not what is left of it after the connection was made.
    const { level, found } = findingOf(
      await diagnose(urlOf('root'), { commandMs: 3_001 }),
      'mysql-lock-wait',
    );
    expect([level, found.endsWith('; commandMs is 3001')]).toEqual(['ok', true]);
  });

  it('has another time than this host', async () => {
    shim.set(-90);
    const findings = await findingsAt(urlOf('root'));
    shim.set(0);
    expect(problemsIn(findings)).toEqual(['clock-difference: warn']);
    expect(findingOf(findings, 'clock-difference').found).toMatch(/behind the clock of this host/);
  });

  it('refuses a user that lacks privileges', async () => {
    const partly = PRIVILEGES.map((privilege) => privilege.replace('SELECT, UPDATE', 'SELECT'));
    const findings = await findingsAt(await createUser('partly', partly));
    expect(problemsIn(findings)).toEqual(['mysql-privileges: fail']);
    expect(findingOf(findings, 'mysql-privileges').found).toBe('this user lacks UPDATE on holdfast_floor');
    const stranger = await createUser('stranger', ['SELECT ON shop.holdfast_fences']);
    expect(await problemsAt(stranger)).toEqual(['mysql-migrations: unknown', 'mysql-privileges: fail']);
  });

  it('has no tables, and the store may not create them', async () => {
    await good.query('CREATE DATABASE empty');
    expect(await problemsAt(urlOf('root', 'empty'))).toEqual([]);
    const pool = mysql.createPool(urlOf('root', 'empty'));
    const manual = mysqlStore(pool, { migrate: false });
    expect(problemsIn(await storeFindings(manual))).toEqual(['mysql-migrations: fail']);
    pool.end();
    await createUser('reader', ['SELECT ON empty.*']);
    const findings = await findingsAt(urlOf('reader:pass-word', 'empty'));
    expect(problemsIn(findings)).toContain('mysql-migrations: unknown');
  });

  it('forgets grants in a failover unless its replica is semi-synchronous', async () => {
    const { port } = good;
    await replica.query(`CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = ${port},
      MASTER_USER = 'root', MASTER_USE_GTID = slave_pos`);
    await replica.query('SET GLOBAL rpl_semi_sync_slave_enabled = 1');
    await replica.query('START SLAVE IO_THREAD');
    const problem = 'mysql-replication: warn';
    await eventually('the replica is connected', async () =>
      (await problemsAt(urlOf('root'))).includes(problem),
    );
    expect(await problemsAt(urlOf('root'))).toEqual([problem]);
    await good.query('SET GLOBAL rpl_semi_sync_master_enabled = 1');
    await replica.query('STOP SLAVE IO_THREAD');
    await replica.query('START SLAVE IO_THREAD');
    const fine = async (): Promise<boolean> =>
      /semi-synchronous/.test(findingOf(await findingsAt(urlOf('root')), 'mysql-replication').found);
    await eventually('the replica is semi-synchronous', fine);
    expect(await problemsAt(urlOf('root'))).toEqual([]);
    await good.query('SET GLOBAL rpl_semi_sync_master_enabled = 0');
  }, 60_000);

  it('is older than the store can use', () => {
    expect(judgeVersion('10.5.28-MariaDB')).toMatchObject({ level: 'fail' });
    expect(judgeVersion('5.7.44')).toMatchObject({ level: 'fail', found: 'version 5.7.44' });
    expect(judgeVersion('8.0.36')).toMatchObject({ level: 'ok' });
  });

  it('is one of several that take writes, each with a clock of its own', () => {
    const values: Readonly<Record<string, string>> = { wsrep_on: 'ON', wsrep_cluster_size: '3' };
    const facts = {
      text: (name: string) => values[name] ?? '',
      number: (name: string) => Number(values[name] ?? 0),
      has: (name: string) => name in values,
      isOn: (name: string) => values[name] === 'ON',
    };
    expect(judgeReplication(facts, 0)).toMatchObject({
      found: 'a Galera cluster of 3 nodes',
      means: expect.stringContaining('one writer node, or synchronised clocks'),
    });
  });
});
