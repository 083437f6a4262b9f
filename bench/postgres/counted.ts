import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks } from 'holdfast';
import { postgresLeaseStore } from 'holdfast/postgres';
import pg from 'pg';
import { report } from '../redis/measure.ts';

/** Counts what the server was asked, as the server sees it. */
export async function statements(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query(
    `SELECT coalesce(sum(calls), 0)::int AS calls FROM pg_stat_statements
      WHERE query NOT LIKE '%pg_stat_statements%'
        AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())`,
  );
  return Number(rows[0].calls);
}

async function withPool<T>(url: string, work: (pool: pg.Pool) => Promise<T>): Promise<T> {
  const pool = new pg.Pool({ connectionString: url });
  try {
    await pool.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
    return await work(pool);
  } finally {
    await pool.end();
  }
}

/** What 50 waiters cost a second while the lock is held for ten. */
export async function fiftyWaiters(url: string): Promise<void> {
  await withPool(url, async (pool) => {
    const a = createLocks(postgresLeaseStore(pool));
    const b = createLocks(postgresLeaseStore(pool), { waitMs: Number.POSITIVE_INFINITY });
    const hold = await a.mutex('bench-fifty').acquire();
    const waiters = Array.from({ length: 50 }, () => b.mutex('bench-fifty').run(() => {}));
    while ((await a.inspect('bench-fifty')).waiters.length < 50) await sleep(10);
    await sleep(200);
    const before = await statements(pool);
    await sleep(10_000);
    report('50 waiters: statements a second', ((await statements(pool)) - before) / 10, { atMost: 20 });
    await hold.release();
    await Promise.all(waiters);
    await Promise.all([a.close(), b.close()]);
  });
}

/** What keeping 10,000 holds alive costs. */
export async function tenThousand(url: string): Promise<void> {
  await withPool(url, async (pool) => {
    const [ttlMs, rounds] = [9_000, 3];
    const locks = createLocks(postgresLeaseStore(pool), { ttlMs });
    const holds = await Promise.all(
      Array.from({ length: 10_000 }, (_, n) => locks.mutex(`bench-renew-${n}`).acquire()),
    );
    let renewed = 0;
    locks.on('renewed', () => {
      renewed += 1;
    });
    const before = await statements(pool);
    while (renewed < rounds * holds.length) await sleep(20);
    const each = ((await statements(pool)) - before) / (renewed / holds.length);
    const lost = holds.filter((hold) => hold.signal.aborted).length;
    report('10,000 leases: statements for a round of renewals', each, { atMost: 100 });
    report('10,000 leases: lost', lost, { atMost: 0 });
    await locks.releaseAll();
    await locks.close();
  });
}

const TASKS = 200;
const MB = 1024 * 1024;

/** The size of the tables after a million pairs: half on two hundred names, half on new names. */
export async function size(url: string): Promise<void> {
  await withPool(url, async (pool) => {
    const locks = createLocks(postgresLeaseStore(pool));
    let greatest = 0;
    const look = async (): Promise<void> => {
      const { rows } = await pool.query(
        `SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::int AS bytes FROM pg_class
          WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r'`,
      );
      greatest = Math.max(greatest, Number(rows[0].bytes));
    };
    await (await locks.mutex('first').acquire()).release();
    for (const kind of ['the same', 'fresh'] as const) {
      let left = 500_000;
      greatest = 0;
      const startedMs = performance.now();
      let lookedAtMs = startedMs;
      await Promise.all(
        Array.from({ length: TASKS }, async (_, task) => {
          while (left > 0) {
            left -= 1;
            const hold = await locks.mutex(kind === 'fresh' ? `fresh-${left}` : `same-${task}`).acquire();
            await hold.release();
            if (performance.now() - lookedAtMs > 500) {
              lookedAtMs = performance.now();
              await look();
            }
          }
        }),
      );
      await look();
      const seconds = (performance.now() - startedMs) / 1000;
      console.log(`      500,000 pairs on ${kind} names in ${seconds.toFixed(0)} s`);
      report(`greatest size of tables and indexes in MB, ${kind} names`, greatest / MB, { atMost: 20 });
    }
    await locks.close();
  });
}
