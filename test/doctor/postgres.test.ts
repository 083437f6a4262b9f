import { spawn } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openLocks } from '../../src/index.ts';
import { postgresLeaseStore } from '../../src/stores/postgres/index.ts';
import { judgeVersion } from '../../src/stores/postgres/server-checks.ts';
import { type ClockShim, makeClockShim } from '../../src/torture/servers/clock-shim.ts';
import { findProgram } from '../../src/torture/servers/find.ts';
import { postgresUser } from '../../src/torture/servers/postgres.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { diagnose, expectProblems, findingOf, problemsIn } from '../support/doctor/findings.ts';
import { findingsAt, problemsAt, storeFindings } from '../support/doctor/store-findings.ts';
import { startPgbouncer } from '../support/servers/pgbouncer.ts';
import { type PostgresServer, startPostgres } from '../support/servers/postgres.ts';
import { eventually } from '../support/waiting/eventually.ts';

const LEASE_CHECKS = [
  'postgres-version',
  'postgres-writable',
  'postgres-pooler',
  'postgres-isolation',
  'postgres-connections',
  'postgres-replication',
  'clock-difference',
  'postgres-durability',
  'postgres-synchronous-commit',
  'postgres-timeouts',
  'postgres-encoding',
  'postgres-migrations',
  'postgres-privileges',
];

/** The privileges that docs/stores/postgres.md lists. */
const PRIVILEGES = [
  'USAGE ON SCHEMA holdfast',
  'SELECT ON holdfast.migrations',
  'SELECT, INSERT, UPDATE, DELETE ON holdfast.locks, holdfast.shares, holdfast.waiters, holdfast.observers',
  'SELECT, UPDATE ON holdfast.floor',
];
const GRANTS = PRIVILEGES.map((privilege) => `GRANT ${privilege} TO app`).join(';');

const RECEIVER = {
  title: 'pg_receivewal',
  binary: 'pg_receivewal',
  folders: Array.from({ length: 14 }, (_, n) => `/usr/lib/postgresql/${25 - n}/bin`),
  packages: ['postgresql-client'],
};

let good: PostgresServer;
beforeAll(async () => {
  good = await startPostgres({ settings: { fsync: 'on', full_page_writes: 'on' } });
  await using locks = await openLocks(good.url);
  await (await locks.mutex('first').acquire()).release();
  await good.query(`CREATE ROLE app; ${GRANTS}`);
}, 60_000);
afterAll(() => good.stop());

function urlOf({ port }: Pick<Server, 'port'>, role: string, mode = 'lease', database = 'postgres'): string {
  return `postgres://${role}@127.0.0.1:${port}/${database}?mode=${mode}`;
}

/** What is found for a new role that may lock, after these statements. */
async function problemsOfRole(role: string, ...statements: readonly string[]): Promise<string[]> {
  await good.query([`CREATE ROLE ${role} LOGIN IN ROLE app`, ...statements].join(';'));
  return await problemsAt(urlOf(good, role));
}

/** Receives all that the server writes, as a standby does. */
async function startStandby(): Promise<AsyncDisposable> {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-standby-'));
  const user = postgresUser();
  if (user !== undefined) chownSync(dir, user.uid, user.gid);
  const args = ['-D', dir, '-d', good.url, '--synchronous'];
  const child = spawn(findProgram(RECEIVER), args, { stdio: 'ignore', ...user });
  const count = async (): Promise<number> =>
    (await good.query("SELECT FROM pg_stat_replication WHERE state = 'streaming'")).length;
  await eventually('the standby receives', async () => (await count()) === 1);
  // A standby can be synchronous once it has reported that something is on its disk.
  await good.query("SELECT pg_logical_emit_message(false, 'holdfast', 'test')");
  return {
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await eventually('the standby is gone', async () => (await count()) === 0);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function setStandbyNames(names: string): Promise<void> {
  await good.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
  await good.query('SELECT pg_reload_conf()');
  const read = async (): Promise<unknown> =>
    (await good.query('SHOW synchronous_standby_names'))[0]?.synchronous_standby_names;
  await eventually('the setting is in force', async () => (await read()) === names);
}

describe.concurrent('leases in a PostgreSQL server', () => {
  it('that is set up well have no problems, and no finding repeats the password', async () => {
    await good.query('CREATE ROLE fine LOGIN IN ROLE app');
    const findings = await findingsAt(urlOf(good, 'fine:pass-word'));
    expect(problemsIn(findings)).toEqual([]);
    expect(findings.map(({ check }) => check)).toEqual(LEASE_CHECKS);
    expect(findingOf(findings, 'postgres-migrations').found).toMatch(/^migration \d+ of \d+ is applied/);
    expect(JSON.stringify(findings)).not.toContain('pass-word');
  });

  it('are diagnosed together with what holds for every store', async () => {
    const checks = (await diagnose(good.url)).map(({ check }) => check);
    expect(checks.slice(-LEASE_CHECKS.length)).toEqual(LEASE_CHECKS);
    expect(checks).toContain('store-answers');
  });

  it('poll behind a pooler in transaction mode, and not in session mode', async () => {
    await good.query('CREATE ROLE pooled LOGIN IN ROLE app');
    const start = (mode: 'session' | 'transaction'): Promise<Server> =>
      startPgbouncer({ port: good.port, mode, users: ['pooled'] });
    await using transaction = await start('transaction');
    await using session = await start('session');
    const findings = await findingsAt(urlOf(transaction, 'pooled'));
    expect(problemsIn(findings)).toEqual(['postgres-pooler: warn']);
    expect(findingOf(findings, 'postgres-pooler').means).toMatch(/LISTEN does not work/);
    const inSession = await findingsAt(urlOf(session, 'pooled'));
    expect(problemsIn(inSession)).toEqual([]);
    expect(findingOf(inSession, 'postgres-pooler').found).toMatch(/session mode/);
    for (const { port } of [transaction, session])
      expect(await problemsAt(urlOf({ port }, 'pooled', 'advisory'))).toEqual(['postgres-pooler: fail']);
  });

  it.each([
    ['isolation', "ALTER ROLE $ SET default_transaction_isolation = 'repeatable read'", 'warn'],
    ['writable', 'ALTER ROLE $ SET default_transaction_read_only = on', 'fail'],
    ['connections', 'ALTER ROLE $ CONNECTION LIMIT 2', 'warn'],
    ['synchronous-commit', 'ALTER ROLE $ SET synchronous_commit = off', 'warn'],
    ['timeouts', "ALTER ROLE $ SET idle_session_timeout = '10s'", 'warn'],
    ['timeouts', "ALTER ROLE $ SET statement_timeout = '1900ms'", 'warn'],
  ])('have the problem postgres-%s after %s', async (check, statement, level) => {
    const role = `role_${Buffer.from(statement).toString('hex').slice(-24)}`;
    expect(await problemsOfRole(role, statement.replace('$', role))).toEqual([`postgres-${check}: ${level}`]);
  });

  it('lack a privilege', async () => {
    const grants = GRANTS.replaceAll('TO app', 'TO partly');
    await good.query(`CREATE ROLE partly LOGIN; ${grants}; REVOKE UPDATE ON holdfast.floor FROM partly`);
    const findings = await findingsAt(urlOf(good, 'partly'));
    expect(problemsIn(findings)).toEqual(['postgres-privileges: fail']);
    expect(findingOf(findings, 'postgres-privileges').found).toBe('this role lacks UPDATE on floor');
    await good.query('CREATE ROLE stranger LOGIN');
    const problems = ['postgres-migrations: unknown', 'postgres-privileges: fail'];
    expect(await problemsAt(urlOf(good, 'stranger'))).toEqual(problems);
  });

  it('have no tables that this role, or the store, may create', async () => {
    await good.query('CREATE ROLE guest LOGIN IN ROLE app');
    const findings = await findingsAt(`${urlOf(good, 'guest')}&schema=elsewhere`);
    expect(problemsIn(findings)).toEqual(['postgres-migrations: fail']);
    expect(findingOf(findings, 'postgres-migrations').found).toMatch(/may not create them/);
    expect(await problemsAt(`${good.url}?schema=elsewhere`)).toEqual([]);
    await using pool = Object.assign(new pg.Pool({ connectionString: good.url }), {
      [Symbol.asyncDispose]: () => pool.end(),
    });
    const manual = postgresLeaseStore(pool, { schema: 'elsewhere', migrate: false });
    expect(problemsIn(await storeFindings(manual))).toEqual(['postgres-migrations: fail']);
  });

  it('are those of an older version of Holdfast', async () => {
    const url = await good.createDatabase();
    await using locks = await openLocks(url);
    await (await locks.mutex('first').acquire()).release();
    const client = new pg.Client(url);
    await client.connect();
    await client.query(
      'DELETE FROM holdfast.migrations WHERE id = (SELECT max(id) FROM holdfast.migrations)',
    );
    await client.query(GRANTS);
    await client.end();
    await good.query('CREATE ROLE dated LOGIN IN ROLE app');
    const findings = await findingsAt(urlOf(good, 'dated', 'lease', new URL(url).pathname.slice(1)));
    expect(problemsIn(findings)).toEqual(['postgres-migrations: fail']);
    expect(findingOf(findings, 'postgres-migrations').found).toMatch(
      /^migration \d+ of \d+ .* may not create/,
    );
    const owner = await findingsAt(url);
    expect(problemsIn(owner)).toEqual([]);
    expect(findingOf(owner, 'postgres-migrations').means).toMatch(/first command/);
  });

  it('cannot have every name in a database of another encoding', async () => {
    await good.query("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'");
    expect(await problemsAt(urlOf(good, 'postgres', 'lease', 'latin'))).toEqual(['postgres-encoding: warn']);
  });
});

describe('a PostgreSQL server with a standby', () => {
  it('forgets grants in a failover unless the standby is synchronous', async () => {
    await good.query('CREATE ROLE plain LOGIN IN ROLE app');
    await good.query('CREATE ROLE hasty LOGIN SUPERUSER; ALTER ROLE hasty SET synchronous_commit = local');
    await good.query('CREATE ROLE lazy LOGIN SUPERUSER; ALTER ROLE lazy SET synchronous_commit = off');
    const urlFor = (role: string): string => good.url.replace('postgres@', `${role}@`);
    {
      await using _standby = await startStandby();
      const findings = await findingsAt(good.url);
      expect(problemsIn(findings)).toEqual(['postgres-replication: warn']);
      expect(findingOf(findings, 'postgres-replication').means).toMatch(/two processes then hold one lock/);
      expect(await problemsAt(`${good.url}?mode=advisory`)).toEqual(['postgres-replication: warn']);
      expect(await problemsAt(urlFor('plain'))).toEqual(['postgres-replication: unknown']);
      await setStandbyNames('*');
      await eventually('the standby is synchronous', async () => (await problemsAt(good.url)).length === 0);
      expect(await problemsAt(urlFor('hasty'))).toEqual(['postgres-replication: warn']);
    }
    const waiting = await findingsAt(good.url);
    expect(problemsIn(waiting)).toEqual(['postgres-replication: fail']);
    expect(findingOf(waiting, 'postgres-replication').means).toMatch(/no lock can be acquired/);
    // The store waits for the standby although the commits of the role do not.
    const lazy = ['postgres-replication: fail', 'postgres-synchronous-commit: warn'];
    expect(await problemsAt(urlFor('lazy'))).toEqual(lazy);
    await using locks = await openLocks(urlFor('lazy'), { commandMs: 1_000, connect: false });
    await expect(locks.mutex('waits for a standby').tryAcquire()).rejects.toMatchObject({ code: 'STORE' });
    await setStandbyNames('');
    expect(await problemsAt(good.url)).toEqual([]);
  }, 60_000);
});

describe('a PostgreSQL server that is set up badly', () => {
  let shim: ClockShim;
  let bad: PostgresServer;
  beforeAll(async () => {
    shim = makeClockShim();
    bad = await startPostgres({ settings: { fsync: 'on' }, env: shim.env });
  }, 60_000);
  afterAll(async () => {
    await bad.stop();
    shim.remove();
  });

  it('writes no full pages, has another time, and is a standby', async () => {
    const durability = 'postgres-durability: warn';
    expect(await problemsAt(bad.url)).toEqual([durability]);
    shim.set(60);
    const findings = await findingsAt(bad.url);
    expect(problemsIn(findings)).toEqual(['clock-difference: warn', durability]);
    expect(findingOf(findings, 'clock-difference').found).toMatch(/ahead of the clock of this host/);
    shim.set(0);
    writeFileSync(`${bad.dir}/data/standby.signal`, '');
    await bad.restartImmediately();
    expect(await problemsAt(bad.url)).toEqual([durability, 'postgres-writable: fail']);
    expect(await problemsAt(`${bad.url}?mode=advisory`)).toEqual(['postgres-writable: fail']);
    await expectProblems(() => diagnose(bad.url), [durability, 'postgres-writable: fail']);
  }, 60_000);

  it('does not wait for the disk, and has a small lock table', async () => {
    const settings = { max_connections: '20', max_locks_per_transaction: '10' };
    await using small = await startPostgres({ settings });
    expect(await problemsAt(small.url)).toEqual(['postgres-durability: fail']);
    const findings = await findingsAt(`${small.url}?mode=advisory`);
    expect(problemsIn(findings)).toEqual([]);
    expect(findingOf(findings, 'postgres-lock-table').found).toMatch(/has 200 entries.* up to 150$/);
    const client = new pg.Client(small.url);
    await client.connect();
    await client.query('SELECT pg_advisory_lock(n) FROM generate_series(1, 30) n');
    expect(await problemsAt(`${small.url}?mode=advisory`)).toEqual(['postgres-lock-table: warn']);
    await client.end();
  }, 60_000);

  it('is older than the store can use', () => {
    const settings = new Map([
      ['server_version', '11.22'],
      ['server_version_num', '110022'],
    ]);
    const text = (name: string): string => settings.get(name) ?? '';
    const number = (name: string): number => Number(text(name));
    expect(judgeVersion({ text, number })).toMatchObject({ level: 'fail', found: 'PostgreSQL 11.22' });
  });
});
