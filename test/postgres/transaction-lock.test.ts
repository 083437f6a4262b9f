import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import postgres from 'postgres';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { AcquireTimeoutError } from '../../src/errors.ts';
import type { Queryable } from '../../src/stores/postgres/queryable.ts';
import { lockInTransaction, tryLockInTransaction } from '../../src/stores/postgres/transaction-lock.ts';
import { type PostgresServer, startSharedPostgres } from '../support/servers/postgres.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { connectionsTo } from './support/connections.ts';

let server: PostgresServer;
let url: string;
const { begin } = connectionsTo(() => url);

beforeAll(async () => {
  server = await startSharedPostgres();
  url = await server.createDatabase();
}, 120_000);
afterAll(() => server?.stop());

const setting = async (client: pg.Client): Promise<string> =>
  (await client.query('SHOW lock_timeout')).rows[0].lock_timeout;
const locksOf = async (client: pg.Client): Promise<number> =>
  Number(
    (
      await client.query(
        `SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
          WHERE locktype = 'advisory' AND datname = current_database()`,
      )
    ).rows[0].count,
  );

describe('a lock in a transaction', () => {
  it('is held until the transaction ends, and excludes psql by its hash', async () => {
    const [a, b] = [await begin(), await begin()];
    await lockInTransaction(a, 'account:7');
    expect(await tryLockInTransaction(b, 'account:7')).toBe(false);
    // A session-level lock would outlive psql by the time its backend needs to notice the exit.
    const elsewhere = "SELECT pg_try_advisory_xact_lock(hashtextextended('account:7', 0))";
    expect(server.psql(url, elsewhere)).toBe('f');
    await a.query('COMMIT');
    expect(server.psql(url, elsewhere)).toBe('t');
    expect(await tryLockInTransaction(b, 'account:7')).toBe(true);
    await b.query('ROLLBACK');
    expect(server.psql(url, elsewhere)).toBe('t');
  });

  it('waits for the one before it', async () => {
    const [a, b] = [await begin(), await begin()];
    await lockInTransaction(a, 'w');
    let entered = false;
    const waiting = lockInTransaction(b, 'w').then(() => {
      entered = true;
    });
    await expect
      .poll(() => server.query('SELECT 1 FROM pg_locks WHERE NOT granted').then((rows) => rows.length))
      .toBe(1);
    expect(entered).toBe(false);
    await a.query('COMMIT');
    await waiting;
    expect(await setting(b)).toBe('0');
  });

  it('can be shared', async () => {
    const [a, b, c] = [await begin(), await begin(), await begin()];
    await lockInTransaction(a, 's', { mode: 'shared' });
    expect(await tryLockInTransaction(b, 's', { mode: 'shared' })).toBe(true);
    expect(await tryLockInTransaction(c, 's')).toBe(false);
  });

  it('takes names, numbers of 64 bits and pairs, which are different locks', async () => {
    const [a, b] = [await begin(), await begin()];
    const pair = { classId: 0, objectId: 1 };
    await lockInTransaction(a, [1n, 'one', -(2n ** 63n), { classId: -1, objectId: 2 ** 31 - 1 }]);
    expect(await locksOf(a)).toBe(4);
    expect(await tryLockInTransaction(b, pair)).toBe(true);
    expect(await tryLockInTransaction(b, -(2n ** 63n))).toBe(false);
    expect(server.psql(url, 'SELECT pg_try_advisory_xact_lock(1)')).toBe('f');
    expect(server.psql(url, 'SELECT pg_try_advisory_xact_lock(0, 1)')).toBe('f');
    expect(server.psql(url, 'SELECT pg_try_advisory_xact_lock(1, 0)')).toBe('t');
  });

  it('takes a list all or none', async () => {
    const [a, b] = [await begin(), await begin()];
    await lockInTransaction(a, 'l:2');
    expect(await tryLockInTransaction(b, ['l:1', 'l:2', 'l:3'])).toBe(false);
    await expect(lockInTransaction(b, ['l:1', 'l:2', 'l:3'], { waitMs: 50 })).rejects.toMatchObject({
      code: 'ACQUIRE_TIMEOUT',
      lock: 'l:1 and l:2 and l:3',
    });
    expect(await locksOf(a)).toBe(1);
    await lockInTransaction(b, []);
    await lockInTransaction(b, ['l:1', 'l:1', 'l:3']);
    expect(await locksOf(a)).toBe(3);
  });

  it('takes lists in one order, so that two transactions never wait for each other', async () => {
    const names = Array.from({ length: 8 }, (_, n) => `d:${n}`);
    const mixed = [...names, 5n, { classId: 1, objectId: 2 }, { classId: 1, objectId: 1 }];
    const transfer = async (turn: number): Promise<void> => {
      const tx = await begin();
      for (let round = 0; round < 15; round += 1) {
        // Each in an order of its own.
        const keys = mixed.map((key, n) => ({ key, at: (n * (turn + 3) + round) % 11 }));
        keys.sort((x, y) => x.at - y.at);
        await lockInTransaction(
          tx,
          keys.map(({ key }) => key),
          { waitMs: 20_000 },
        );
        await tx.query('COMMIT');
        await tx.query('BEGIN');
      }
    };
    await Promise.all([0, 1, 2, 3].map(transfer));
  }, 30_000);

  it('refuses outside a transaction, whatever it is given', async () => {
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    const sql = postgres(url, { max: 1, onnotice: () => {} });
    for (const tx of [pool, sql] as Queryable[]) {
      for (const lock of [lockInTransaction, tryLockInTransaction])
        await expect(lock(tx, 'x')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', argument: 'tx' });
    }
    expect(await locksOf(await begin())).toBe(0);
    await Promise.all([pool.end(), sql.end()]);
  });

  it('refuses bad arguments before anything is sent', async () => {
    const tx: Queryable = { query: () => Promise.reject(new Error('sent')) };
    const bad = [[{}], 'a\u0000b', '', 2n ** 63n, { classId: 1.5, objectId: 0 }, 7, null] as never[];
    for (const key of bad)
      await expect(lockInTransaction(tx, key)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(lockInTransaction(tx, 'a', { waitMs: -1 })).rejects.toMatchObject({ argument: 'waitMs' });
    await expect(tryLockInTransaction(tx, 'a', { mode: 'update' as never })).rejects.toMatchObject({
      argument: 'mode',
    });
    await expect(lockInTransaction({} as never, 'a')).rejects.toMatchObject({ argument: 'tx' });
  });

  it('works in a transaction of postgres.js, also several calls at once', async () => {
    const sql = postgres(url, { max: 2 });
    await sql.begin(async (tx) => {
      await Promise.all(['p:1', 'p:2', 'p:3'].map((name) => lockInTransaction(tx, name)));
      expect(server.psql(url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")).toBe('3');
      await expect(
        sql.begin((other) => lockInTransaction(other, 'p:2', { waitMs: 30 })),
      ).rejects.toMatchObject({ code: 'ACQUIRE_TIMEOUT' });
    });
    await sql.end();
  });
});

describe('after a lock in a transaction was not had', () => {
  it('row 45: the transaction continues, with its lock_timeout and what it wrote before', async () => {
    const [a, b] = [await begin(), await begin()];
    await b.query("SET lock_timeout = '7s'");
    await b.query('CREATE TABLE kept (n int)');
    await b.query('INSERT INTO kept VALUES (1)');
    await lockInTransaction(a, 't');
    for (const waitMs of [0, 40]) {
      const startedMs = performance.now();
      await expect(lockInTransaction(b, 't', { waitMs })).rejects.toMatchObject({ code: 'ACQUIRE_TIMEOUT' });
      expect(performance.now() - startedMs).toBeLessThan(5_000);
      expect(await setting(b)).toBe('7s');
    }
    await lockInTransaction(b, 'another');
    expect(await setting(b)).toBe('7s');
    expect(await server.query('SELECT 1 FROM pg_locks WHERE NOT granted')).toEqual([]);
    await b.query('INSERT INTO kept VALUES (2)');
    await b.query('COMMIT');
    expect((await b.query('SELECT n FROM kept ORDER BY n')).rows).toEqual([{ n: 1 }, { n: 2 }]);
    expect(await setting(b)).toBe('7s');
  });

  it('names the holders in the time-out, for a name, a number or a pair, exclusive or shared', async () => {
    const holder = await begin();
    const { rows } = await holder.query(
      "SELECT set_config('application_name', 'billing', false), pg_backend_pid() AS pid",
    );
    const keys = ['who:1', -5n, { classId: -1, objectId: 7 }] as const;
    await lockInTransaction(holder, [keys[0], keys[2]]);
    await lockInTransaction(holder, keys[1], { mode: 'shared' });
    const tx = await begin();
    for (const [n, key] of keys.entries()) {
      const error = await lockInTransaction(tx, key, { waitMs: 20 }).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'ACQUIRE_TIMEOUT', message: expect.stringContaining('"billing"') });
      expect((error as AcquireTimeoutError).holders).toMatchObject([
        { id: `session ${rows[0].pid}`, owner: 'billing', mode: { kind: n === 1 ? 'shared' : 'exclusive' } },
      ]);
    }
    // Keys without a holder, and keys of this session, are not shown.
    await lockInTransaction(tx, 'who:2');
    await tx.query('SAVEPOINT still_there');
  });

  it('one wait is for all keys together', async () => {
    const held = await Promise.all([1, 2, 3, 4, 5].map(() => begin()));
    // In the order in which they are waited for.
    const { rows } = await (held[0] as pg.Client).query(
      `SELECT 'many:' || n AS name FROM generate_series(0, 4) AS n
        ORDER BY hashtextextended('many:' || n, 0)`,
    );
    const names = rows.map(({ name }) => name as string);
    await Promise.all(held.map((client, n) => lockInTransaction(client, names[n] ?? '')));
    const tx = await begin();
    let isOver = false;
    const asked = lockInTransaction(tx, names, { waitMs: 400 }).finally(() => {
      isOver = true;
    });
    const refused = expect(asked).rejects.toMatchObject({ code: 'ACQUIRE_TIMEOUT' });
    // Each becomes free just before its own wait would run out. Had each key a wait of its own, all of them
    // would be had.
    for (const client of held) {
      await eventually('it waits for the next', async () => {
        return isOver || (await server.query('SELECT 1 FROM pg_locks WHERE NOT granted')).length > 0;
      });
      await sleep(250);
      await client.query('COMMIT');
    }
    await refused;
  });

  it('rows 45 and 48: after a cancelled or deadlocked wait the transaction continues', async () => {
    const [a, b] = [await begin(), await begin()];
    await lockInTransaction(a, 'c:1');
    await b.query("SET LOCAL statement_timeout = '1500ms'");
    await expect(lockInTransaction(b, 'c:1')).rejects.toMatchObject({
      code: 'STORE',
      applied: 'no',
      cause: { code: '57014' },
    });
    await b.query('SET LOCAL statement_timeout = 0');
    await lockInTransaction(b, 'c:2');
    const cross = async (tx: pg.Client, name: string): Promise<string | null> => {
      try {
        await lockInTransaction(tx, name, { waitMs: 20_000 });
        return null;
      } catch (error) {
        expect((await tx.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
        await tx.query('ROLLBACK');
        return (error as { cause: { code: string } }).cause.code;
      }
    };
    const outcomes = await Promise.all([cross(a, 'c:2'), cross(b, 'c:1')]);
    expect(outcomes.filter((outcome) => outcome !== null)).toEqual(['40P01']);
  });

  it('in a transaction that has failed before, it says so', async () => {
    const tx = await begin();
    await expect(tx.query('SELECT 1/0')).rejects.toThrow();
    await expect(lockInTransaction(tx, 'f')).rejects.toMatchObject({
      code: 'STORE',
      cause: { code: '25P02' },
    });
  });
});

/** Everything that `sql.begin` of postgres.js must not notice: it rolls back once any statement failed. */
describe('after a lock was not had in a transaction of postgres.js', () => {
  let sql: ReturnType<typeof postgres>;
  beforeAll(async () => {
    sql = postgres(url, { max: 3, onnotice: () => {} });
    await sql`CREATE TABLE js (n int)`;
  });
  afterAll(() => sql?.end());
  beforeEach(async () => {
    await sql`TRUNCATE js`;
  });
  const written = async (): Promise<number[]> => (await sql`SELECT n FROM js ORDER BY n`).map(({ n }) => n);

  it.each([0, 40])('the transaction commits after a wait of %i ms', async (waitMs) => {
    const holder = await begin();
    await lockInTransaction(holder, 'js:held');
    await sql.begin(async (tx) => {
      await tx`SET LOCAL lock_timeout = '7s'`;
      await tx`INSERT INTO js VALUES (1)`;
      await expect(lockInTransaction(tx, ['js:free', 'js:held'], { waitMs })).rejects.toMatchObject({
        code: 'ACQUIRE_TIMEOUT',
        holders: [{ mode: { kind: 'exclusive' } }],
      });
      expect(await tryLockInTransaction(tx, ['js:free', 'js:held'])).toBe(false);
      expect(await locksOf(holder)).toBe(1);
      expect((await tx`SHOW lock_timeout`)[0]).toEqual({ lock_timeout: '7s' });
      await lockInTransaction(tx, 'js:free');
      await tx`INSERT INTO js VALUES (2)`;
    });
    expect(await written()).toEqual([1, 2]);
  });

  it('the transaction commits after a wait that was cancelled', async () => {
    const holder = await begin();
    await lockInTransaction(holder, 'js:cancelled');
    await sql.begin(async (tx) => {
      await tx`INSERT INTO js VALUES (1)`;
      await tx`SET LOCAL statement_timeout = '1500ms'`;
      await expect(lockInTransaction(tx, 'js:cancelled')).rejects.toMatchObject({
        code: 'STORE',
        applied: 'no',
        cause: { code: '57014' },
      });
      await tx`SET LOCAL statement_timeout = 0`;
      const waiting = lockInTransaction(tx, 'js:cancelled', { waitMs: Number.POSITIVE_INFINITY });
      waiting.catch(() => {});
      const cancel = 'SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted';
      await expect.poll(() => server.query(cancel).then((rows) => rows.length)).toBeGreaterThan(0);
      await expect(waiting).rejects.toMatchObject({ code: 'STORE', cause: { code: '57014' } });
      await tx`INSERT INTO js VALUES (2)`;
    });
    expect(await written()).toEqual([1, 2]);
  });

  it('the transaction commits after a deadlock', async () => {
    const codes: string[] = [];
    let arrived = 0;
    const cross = (first: string, second: string, n: number): Promise<unknown> =>
      sql.begin(async (tx) => {
        await tx`INSERT INTO js VALUES (${n})`;
        await lockInTransaction(tx, first);
        arrived += 1;
        await expect.poll(() => arrived).toBe(2);
        await lockInTransaction(tx, second, { waitMs: 20_000 }).catch(
          (error: { code: string; cause?: { code: string; detail?: string } }) => {
            codes.push(error.cause?.code ?? error.code);
            if (error.cause?.code === '40P01') expect(error.cause.detail).toMatch(/waits for/);
          },
        );
      });
    await Promise.all([cross('js:a', 'js:b', 1), cross('js:b', 'js:a', 2)]);
    expect(codes).toEqual(['40P01']);
    expect(await written()).toEqual([1, 2]);
  });
});
