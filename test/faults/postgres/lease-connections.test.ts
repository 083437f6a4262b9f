import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterEach, describe, expect, it } from 'vitest';
import { postgresAdvisoryStore } from '../../../src/stores/postgres/index.ts';
import { start, stopAll } from '../../cli/support/holdfast.ts';
import { LeaseStage, request } from '../../postgres/support/lease-stage.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';
import { renewed } from '../../support/waiting/renewed.ts';

const LIBRARIES = ['pg.Pool', 'postgres.js'] as const;
const stage = await useStage(LeaseStage.start({ settings: { idle_in_transaction_session_timeout: '100' } }));
afterEach(() => stopAll());

/** Ends every session of ours, as an administrator would. */
const terminate = (): Promise<unknown> =>
  stage.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`,
  );

describe.each(LIBRARIES)('row 40: sessions that are ended, under %s', (library) => {
  it('pg_terminate_backend in mid-hold loses nothing', async () => {
    const locks = stage.locks({ library, ttlMs: 8_000 });
    const hold = await locks.mutex(`kill-${library}`).acquire();
    for (let n = 0; n < 3; n += 1) {
      await terminate();
      await sleep(150);
    }
    await renewed(hold);
    expect(await hold.release()).toBe(true);
  });

  it('the listening connection comes back, and a wake-up that was lost with it costs a moment', async () => {
    const [holder, waiter] = [stage.locks({ library }), stage.locks({ library })];
    const name = `wake-${library}`;
    const hold = await holder.mutex(name).acquire();
    const pending = later(waiter.mutex(name).acquire());
    await stage.listening(name, 1);
    await terminate();
    await hold.release();
    const startedMs = performance.now();
    await (await pending).release();
    expect(performance.now() - startedMs).toBeLessThan(15_000);
  });

  it('idle_session_timeout ends idle connections, and no call fails', async () => {
    const role = `idle_${library === 'pg.Pool' ? 1 : 2}`;
    await stage.query(`CREATE ROLE ${role} SUPERUSER LOGIN`);
    await stage.query(`ALTER ROLE ${role} SET idle_session_timeout = '200ms'`);
    const url = stage.url.replace('postgres@', `${role}@`);
    const locks = stage.locks({ library, url, ttlMs: 8_000 });
    const hold = await locks.mutex(`idle-${library}`).acquire();
    // More than a second after the last statement.
    await renewed(hold);
    expect(await hold.release()).toBe(true);
  });
});

it('a connection that ends before it is ready: nothing was sent, and the error says so', async () => {
  await stage.store().read('makes the tables');
  const other = await stage.admin.connect();
  await other.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
  await other.query('LOCK TABLE holdfast.migrations');
  const claiming = later(stage.store().claim(request('not sent')));
  await eventually('it looks which migrations were applied, and is ended', async () => {
    const ended = await stage.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%max(id)%' AND pid <> pg_backend_pid()`,
    );
    return ended.length > 0;
  });
  await other.query('ROLLBACK');
  other.release();
  await expect(claiming).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
});

it('the error of a client library that cannot make a connection says that nothing was sent', async () => {
  // pg reads the certificate when a client is made.
  const pool = new pg.Pool({ connectionString: `${stage.url}?sslmode=verify-full&sslrootcert=/nowhere` });
  for (const store of [stage.store({ pool }), postgresAdvisoryStore(pool)]) {
    const claiming = store.claim(request('not sent'));
    await expect(claiming).rejects.toMatchObject({ code: 'STORE', applied: 'no', cause: { code: 'ENOENT' } });
    await store.close();
  }
});

it('a server that has become read only: its connections are replaced, as after a failover', async () => {
  const pool = new pg.Pool({ connectionString: stage.url, application_name: 'becomes-read-only' });
  const store = stage.store({ pool });
  const open = async (): Promise<unknown[]> =>
    (await stage.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'becomes-read-only'")).map(
      ({ pid }) => pid,
    );
  await store.claim(request('before'));
  const before = await open();
  expect(before).toHaveLength(1);
  const setTo = (value: string): Promise<unknown> =>
    stage.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
  await setTo('on');
  try {
    await eventually('it refuses', async () => {
      await stage.query('SELECT pg_reload_conf()');
      const refusal = await store.claim(request('refused')).catch((error: unknown) => error);
      return (refusal as { cause?: { code?: unknown } }).cause?.code === '25006';
    });
    await eventually('the connection is replaced', async () => !(await open()).includes(before[0]));
    const cause = { message: 'this server is set to be read only' };
    await expect(store.claim(request('still'))).rejects.toMatchObject({ applied: 'no', cause });
    await eventually('no connection is left', async () => (await open()).length === 0);
  } finally {
    await setTo('off');
    await stage.query('SELECT pg_reload_conf()');
  }
  await eventually('it is used again', () =>
    store.claim(request('after')).then(
      ({ granted }) => granted,
      () => false,
    ),
  );
});

it('row 40: no transaction stays open, so idle_in_transaction_session_timeout ends none', async () => {
  const locks = stage.locks({ ttlMs: 900 });
  const hold = await locks.mutex('open').acquire();
  const pending = later(locks.mutex('open').acquire());
  for (let n = 0; n < 10; n += 1) {
    const open = await stage.query(
      `SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'`,
    );
    expect(open).toEqual([]);
    await sleep(50);
  }
  await hold.release();
  await (await pending).release();
});

it('locks are taken, renewed and released while the only connection of the pool is in use', async () => {
  const pool = new pg.Pool({ connectionString: stage.url, max: 1 });
  const client = await pool.connect();
  await client.query('CREATE TABLE stock (n int); INSERT INTO stock VALUES (1)');
  const locks = stage.locks({ pool, ttlMs: 8_000 });
  await client.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
  const hold = await locks.mutex('inside').acquire();
  await client.query('SELECT n FROM stock FOR UPDATE');
  await renewed(hold);
  await client.query('ROLLBACK');
  // The user's rollback is not ours.
  hold.assertHeld();
  expect(await hold.release()).toBe(true);
  client.release();
  await pool.end();
});

it('no connection is left behind by close, nor by a store that could not connect', async () => {
  const name = 'left-behind';
  const pool = new pg.Pool({ connectionString: stage.url, application_name: name });
  const [a, b] = [stage.locks({ pool }), stage.locks({ pool })];
  const hold = await a.mutex('x').acquire();
  const pending = b
    .mutex('x')
    .acquire()
    .catch(() => {});
  const ours = async (): Promise<number> =>
    (await stage.query('SELECT 1 FROM pg_stat_activity WHERE application_name = $1', [name])).length;
  await eventually('it waits', async () => (await a.inspect('x')).waiters.length === 1);
  expect(await ours()).toBeGreaterThan(0);
  await hold.release();
  await pending;
  await Promise.all([a.close({ drainMs: 0 }), b.close({ drainMs: 0 })]);
  await eventually('all are closed', async () => (await ours()) === 0);
  const nowhere = stage.store({ url: 'postgres://postgres@127.0.0.1:1/none' });
  await expect(nowhere.claim(request('x'))).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  await nowhere.close();
});

it('a waiter whose process was killed is passed over at once', async () => {
  const listeners = async (): Promise<unknown[]> =>
    (await stage.query("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted")).map(
      ({ pid }) => pid,
    );
  const locks = stage.locks();
  const hold = await locks.mutex('dead').acquire();
  const others = await listeners();
  const process = await start(['run', 'dead', '--wait', '60s', '--', 'true'], { HOLDFAST_URL: stage.url });
  await stage.listening('dead', 1);
  const its = (await listeners()).filter((pid) => !others.includes(pid));
  expect(its).not.toEqual([]);
  const pending = later(stage.locks().mutex('dead').acquire());
  await stage.listening('dead', 2);
  process.child.kill('SIGKILL');
  await eventually('the server knows', async () => !(await listeners()).some((pid) => its.includes(pid)));
  await hold.release();
  const startedMs = performance.now();
  await (await pending).release();
  // Who is called and does not come costs five.
  expect(performance.now() - startedMs).toBeLessThan(4_500);
});

it('a waiter that does not come when it is called is passed over after five seconds', async () => {
  const [silent, holder, other] = [stage.store(), stage.locks(), stage.locks()];
  const hold = await holder.mutex('silent').acquire();
  const waiter = request('silent', { wait: true });
  await silent.claim(waiter);
  const watch = await silent.watch(waiter, () => {});
  await silent.claim(waiter);
  const pending = later(other.mutex('silent').acquire());
  await eventually('both wait', async () => (await holder.inspect('silent')).waiters.length === 2);
  // Before the release, which begins the five seconds.
  const startedMs = performance.now();
  await hold.release();
  const next = await pending;
  expect(performance.now() - startedMs).toBeGreaterThan(4_500);
  expect(performance.now() - startedMs).toBeLessThan(15_000);
  // A waiter that asks again enters the queue again.
  expect(await silent.claim(waiter)).toMatchObject({ granted: false });
  await next.release();
  expect(await silent.claim(waiter)).toMatchObject({ granted: true });
  await watch[Symbol.asyncDispose]();
});
