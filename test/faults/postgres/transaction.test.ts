import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import {
  bindFence,
  lockInTransaction,
  postgresLeaseStore,
  tryLockInTransaction,
} from '../../../src/stores/postgres/index.ts';
import { compiled } from '../../support/process/compiled.ts';
import { startPgbouncer } from '../../support/servers/pgbouncer.ts';
import { type PostgresServer, startPostgres } from '../../support/servers/postgres.ts';

let server: PostgresServer;
let url: string;
const children: ChildProcess[] = [];
const clients: pg.Client[] = [];

beforeAll(async () => {
  server = await startPostgres();
  url = await server.createDatabase();
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await Promise.all(clients.splice(0).map((client) => client.end().catch(() => {})));
});
afterAll(() => server?.stop());

async function connect(at = url): Promise<pg.Client> {
  const client = new pg.Client(at);
  client.on('error', () => {});
  await client.connect();
  clients.push(client);
  return client;
}

async function begin(at = url): Promise<pg.Client> {
  const client = await connect(at);
  await client.query('BEGIN');
  return client;
}

async function said(child: ChildProcess, what: string): Promise<Record<string, unknown>> {
  for (;;) {
    const [message] = (await once(child, 'message')) as [Record<string, unknown>];
    if (message.say === what) return message;
  }
}

function startWriter(when: 'unbound' | 'bound', at: string): ChildProcess {
  const script = fileURLToPath(new URL('./support/paused-writer.ts', import.meta.url));
  const child = fork(compiled(script), [at, when], {
    execArgv: ['--unhandled-rejections=strict'],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  children.push(child);
  return child;
}

describe('a holder that was paused past its lease', () => {
  for (const when of ['unbound', 'bound'] as const) {
    it(`cannot write any more: ${when} when it was paused`, async () => {
      const at = await server.createDatabase();
      const pool = new pg.Pool({ connectionString: at });
      const locks = createLocks(postgresLeaseStore(pool), { waitMs: 20_000 });
      await (await locks.mutex('warm').acquire()).release();
      await pool.query("CREATE TABLE orders (what text); SELECT holdfast.require_fence('orders')");
      // An open transaction that has bound a fence blocks other holders until this time-out.
      if (when === 'bound')
        await pool.query(
          `ALTER DATABASE ${new URL(at).pathname.slice(1)} SET idle_in_transaction_session_timeout = '4s'`,
        );
      const child = startWriter(when, at);
      const ready = await said(child, 'ready');
      child.kill('SIGSTOP');
      const hold = await locks.mutex('orders').acquire();
      expect(hold.fence).toBeGreaterThan(BigInt(ready.fence as string));
      const tx = await begin(at);
      await bindFence(tx, hold);
      await tx.query("INSERT INTO orders VALUES ('in time')");
      await tx.query('COMMIT');
      const done = said(child, 'done');
      child.kill('SIGCONT');
      child.send('go on');
      const { refusal, isLost } = await done;
      expect(isLost).toBe(true);
      if (when === 'unbound') expect(refusal).toBe('STALE_FENCE');
      else expect(refusal).not.toBe('none');
      expect((await pool.query('SELECT what FROM orders')).rows).toEqual([{ what: 'in time' }]);
      await locks.close({ drainMs: 0 });
      await pool.end();
    });
  }
});

describe('locks in a transaction', () => {
  it('row 39: work behind a pooler in transaction mode, and end with the transaction', async () => {
    const pooler = await startPgbouncer({ port: server.port, mode: 'transaction', poolSize: 2 });
    const pooled = new URL(url);
    pooled.port = String(pooler.port);
    const [a, b] = [await begin(pooled.href), await begin(pooled.href)];
    await lockInTransaction(a, ['pooled', 5n]);
    expect(await tryLockInTransaction(b, 'pooled')).toBe(false);
    await expect(lockInTransaction(b, 'pooled', { waitMs: 50 })).rejects.toMatchObject({
      code: 'ACQUIRE_TIMEOUT',
    });
    await a.query('COMMIT');
    expect(await tryLockInTransaction(b, ['pooled', 5n])).toBe(true);
    await b.query('COMMIT');
    // All clients share one server connection: the next must not see what one has set.
    await a.query('BEGIN');
    expect((await a.query('SHOW lock_timeout')).rows).toEqual([{ lock_timeout: '0' }]);
    // The sessions of a process that an earlier test has killed may end a moment later.
    await expect.poll(() => server.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")).toEqual([]);
    await Promise.all([a.end(), b.end()]);
    await pooler.stop();
  });

  it('row 40: a terminated backend ends the wait and the locks, and the error says so', async () => {
    const [a, b, c] = [await begin(), await begin(), await begin()];
    await lockInTransaction(a, 'killed');
    const waiting = lockInTransaction(b, 'killed', { waitMs: 20_000 });
    waiting.catch(() => {});
    await expect
      .poll(() => server.query('SELECT 1 FROM pg_locks WHERE NOT granted').then((rows) => rows.length))
      .toBe(1);
    const pidOf = async (client: pg.Client): Promise<number> =>
      (client as unknown as { processID: number }).processID;
    await server.query('SELECT pg_terminate_backend($1)', [await pidOf(b)]);
    await expect(waiting).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    await server.query('SELECT pg_terminate_backend($1)', [await pidOf(a)]);
    await lockInTransaction(c, 'killed');
  });

  it('row 44: an immediate restart ends them with the transaction', async () => {
    const a = await begin();
    await lockInTransaction(a, 'restart');
    await server.restartImmediately();
    await expect(lockInTransaction(a, 'more')).rejects.toMatchObject({ code: 'STORE' });
    const b = await begin();
    expect(await tryLockInTransaction(b, 'restart')).toBe(true);
  });

  it('a holder that is killed frees them at once', async () => {
    const [a, b] = [await begin(), await begin()];
    await lockInTransaction(a, 'socket');
    (a as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
    await lockInTransaction(b, 'socket');
  });
});
