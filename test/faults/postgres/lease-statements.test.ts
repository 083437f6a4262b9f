import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { expect, it } from 'vitest';
import { systemClock } from '../../../src/clock.ts';
import { LeaseStage, request } from '../../postgres/support/lease-stage.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { startPgbouncer } from '../../support/servers/pgbouncer.ts';
import { renewed } from '../../support/waiting/renewed.ts';

const stage = await useStage(LeaseStage.start());

it('row 45: cancelled statements are tried again over the same connection', async () => {
  const pool = new pg.Pool({ connectionString: stage.url, application_name: 'cancelled' });
  const locks = stage.locks({ pool, ttlMs: 5_000 });
  await (await locks.mutex('warm').acquire()).release();
  const backends = async (): Promise<string> =>
    (await stage.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'cancelled' ORDER BY pid"))
      .map(({ pid }) => pid)
      .join();
  const before = await backends();
  let isOver = false;
  const cancelling = (async () => {
    while (!isOver)
      await stage.query(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'cancelled'",
      );
  })();
  const store = stage.store({ pool, connections: 1 });
  const failures: Array<{ applied?: string; cause?: { code?: string } }> = [];
  const endMs = performance.now() + 20_000;
  const isEnough = (): boolean => failures.length >= (performance.now() < endMs ? 100 : 1);
  for (let n = 0; n < 2_000 && (n < 50 || !isEnough()); n += 1) {
    const hold = await locks.mutex('cancel').acquire();
    hold.assertHeld();
    await hold.release().catch(() => {});
    // One statement that takes long enough to be met.
    const claims = Array.from({ length: 50 }, (_, each) => request(`cancel-${n}-${each}`));
    await Promise.all(claims.map((each) => store.claim(each).catch((error) => failures.push(error))));
  }
  isOver = true;
  await cancelling;
  expect(failures.length).toBeGreaterThan(0);
  // A backend that is cancelled while it comes up refuses, too.
  for (const failure of failures) expect(failure.applied).toBe('no');
  expect(await backends()).toContain(before);
  await store.close();
  await locks.close({ drainMs: 0 });
});

it('row 45: statement_timeout and lock_timeout of the role are failures without effect', async () => {
  await stage.query('CREATE ROLE hasty SUPERUSER LOGIN');
  await stage.query("ALTER ROLE hasty SET statement_timeout = '1s'");
  await stage.query("ALTER ROLE hasty SET lock_timeout = '200ms'");
  const url = stage.url.replace('postgres@', 'hasty@');
  const store = stage.store({ url, connections: 1 });
  await store.claim(request('warm'));
  // No statement waits for a lock of the table either, unless another session locks the whole table.
  const other = new pg.Client(stage.url);
  await other.connect();
  await other.query('BEGIN; LOCK TABLE holdfast.locks IN ACCESS EXCLUSIVE MODE');
  await expect(store.claim(request('timed'))).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  await other.query('COMMIT');
  await other.end();
  expect(await store.claim(request('timed'))).toMatchObject({ granted: true });
});

it('row 46: names whose 32-bit hashes are the same are different locks', async () => {
  const [pair] = await stage.query(
    `SELECT min('name-' || n) AS a, max('name-' || n) AS b FROM generate_series(1, 400000) n
      GROUP BY hashtext('name-' || n) HAVING count(*) > 1 LIMIT 1`,
  );
  const locks = stage.locks();
  const a = await locks.mutex(String(pair?.a)).tryAcquire();
  const b = await locks.mutex(String(pair?.b)).tryAcquire();
  expect(pair?.a).not.toBe(pair?.b);
  expect([a === null, b === null]).toEqual([false, false]);
  await a?.release();
  await b?.release();
});

it.each([3_600_000, -3_600_000])(
  'row 47: a client whose clock is %i ms off steals nothing, and its leases last as long as others',
  async (offMs) => {
    const clock = { ...systemClock, wallMs: () => systemClock.wallMs() + offMs };
    const skewed = stage.locks({ clock, ttlMs: 8_000 });
    const others = stage.locks({ ttlMs: 8_000 });
    const name = `skew-${offMs}`;
    const hold = await others.mutex(name).acquire();
    expect(await skewed.mutex(name).tryAcquire()).toBeNull();
    await hold.release();
    const own = await skewed.mutex(name).acquire();
    expect(own.fence).toBeGreaterThan(hold.fence);
    const [row] = await stage.query(
      `SELECT extract(epoch FROM expires_at - clock_timestamp())::float AS left
        FROM holdfast.locks WHERE name = $1`,
      [name],
    );
    expect(Number(row?.left)).toBeLessThanOrEqual(8);
    await renewed(own);
    expect(await others.mutex(name).tryAcquire()).toBeNull();
    await own.release();
  },
);

it('row 48: with serializable transactions by default, many claims at once exclude each other', async () => {
  const url = await stage.server.createDatabase();
  const database = new URL(url).pathname.slice(1);
  await stage.query(`ALTER DATABASE ${database} SET default_transaction_isolation = 'serializable'`);
  const pooler = await startPgbouncer({ port: stage.server.port, mode: 'transaction', poolSize: 4 });
  try {
    for (const through of [url, url.replace(`:${stage.server.port}/`, `:${pooler.port}/`)]) {
      const lockses = Array.from({ length: 4 }, () => stage.locks({ url: through }));
      let inside = 0;
      let count = 0;
      await Promise.all(
        lockses.flatMap((locks) =>
          Array.from({ length: 5 }, () =>
            locks.mutex('serial').run(async (hold) => {
              inside += 1;
              expect(inside).toBe(1);
              await sleep(1);
              hold.assertHeld();
              inside -= 1;
              count += 1;
            }),
          ),
        ),
      );
      expect(count).toBe(20);
      await Promise.all(lockses.map((locks) => locks.close({ drainMs: 0 })));
      // The store itself retries serialization failures, so that no caller sees them.
      const stores = Array.from({ length: 6 }, () => stage.store({ url: through }));
      for (let round = 0; round < 25; round += 1) {
        const claims = stores.map((_, n) =>
          request(`serial-${n % 2}-${round % 3}`, { wait: true, mode: { kind: 'shared' } }),
        );
        const outcomes = await Promise.all(claims.map((each, n) => stores[n]?.claim(each)));
        expect(outcomes.every((outcome) => outcome?.granted)).toBe(true);
        await Promise.all(claims.map((each, n) => stores[n]?.release(each)));
      }
    }
  } finally {
    await pooler.stop();
  }
});

it('row 48: a lease counts from when it is given, not from when its transaction began', async () => {
  const other = new pg.Client(stage.url);
  await other.connect();
  await stage.store().claim(request('warm'));
  await other.query('BEGIN');
  await other.query('SELECT now()');
  await sleep(5_200);
  await other.query("SELECT * FROM holdfast.claim('long', 'in-a-transaction', ttl_ms => 5000)");
  await other.query('COMMIT');
  expect(await stage.store().claim(request('long'))).toMatchObject({ granted: false });
  await other.end();
});
