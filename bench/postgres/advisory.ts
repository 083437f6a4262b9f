import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks } from 'holdfast';
import { postgresAdvisoryStore } from 'holdfast/postgres';
import pg from 'pg';
import { p50, report } from '../redis/measure.ts';
import type { Contender, MakeContender } from './contenders.ts';
import { compare, pairs, throughput } from './uncontended.ts';

/** The two statements that everybody writes, on one connection and one after the other; `isPrepared`: by name, so that the server parses and plans them once. */
const statements =
  (isPrepared: boolean): MakeContender =>
  async (url) => {
    const client = new pg.Client(url);
    await client.connect();
    let last: Promise<unknown> = Promise.resolve();
    const run = (name: string, text: string, lock: string): Promise<pg.QueryResult> => {
      const query = { text, values: [lock], ...(isPrepared ? { name } : {}) };
      const sent = last.then(() => client.query(query));
      last = sent.catch(() => {});
      return sent;
    };
    return {
      name: isPrepared ? 'the same, prepared by name' : 'floor: the two statements',
      async acquire(lock) {
        const text = 'SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS held';
        const { rows } = await run('floor_lock', text, lock);
        if (!rows[0].held) throw new Error('held');
        return () => run('floor_unlock', 'SELECT pg_advisory_unlock(hashtextextended($1, 0))', lock);
      },
      close: () => client.end(),
    };
  };

export const advisory: MakeContender = async (url): Promise<Contender> => {
  const pool = new pg.Pool({ connectionString: url });
  const locks = createLocks(postgresAdvisoryStore(pool), { waitMs: Number.POSITIVE_INFINITY });
  return {
    name: 'holdfast advisory',
    async acquire(lock) {
      const hold = await locks.mutex(lock).acquire();
      return () => hold.release();
    },
    async close() {
      await locks.close();
      await pool.end();
    },
  };
};

/** The prepared one has no target; it is shown because it is what we do ourselves. */
const CONTENDERS = [statements(false), advisory, statements(true)];

/** Where the system places a server process beside ours makes up to half of a round trip, and stays so: each time with other connections. */
const PLACES = 7;

export async function advisoryOne(url: string): Promise<void> {
  const ratios: number[] = [];
  for (let place = 0; place < PLACES; place += 1) {
    const { own, least } = await compare(url, 'ms', pairs, CONTENDERS);
    ratios.push(own / least);
  }
  report('advisory, one at a time: p50 of acquire + release, to the floor', p50(ratios), { atMost: 1.25 });
}

export async function advisoryHundred(url: string): Promise<void> {
  const { own, least } = await compare(url, 'pairs/s', (contender) => throughput(contender, 100), CONTENDERS);
  report('advisory, 100 tasks on 100 names: throughput, to the floor', own / least, { atLeast: 1.2 });
}

const WATCH_MS = 5_000;

/** Fifty who wait, in five processes as the server sees them, for one who does not let go. */
export async function advisoryFifty(url: string): Promise<void> {
  const admin = new pg.Client(url);
  await admin.connect();
  await admin.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
  const contenders = await Promise.all(Array.from({ length: 6 }, () => advisory(url)));
  const [holder, ...others] = contenders;
  const release = await holder?.acquire('bench-fifty');
  const waiting = Array.from({ length: 50 }, (_, n) => others[n % others.length]?.acquire('bench-fifty'));
  await sleep(1_000);
  const calls = async (): Promise<number> =>
    Number(
      (
        await admin.query(
          `SELECT coalesce(sum(calls), 0) AS calls FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'
            AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())`,
        )
      ).rows[0].calls,
    );
  const before = await calls();
  await sleep(WATCH_MS);
  report('advisory, 50 waiters: statements a second', (((await calls()) - before) * 1000) / WATCH_MS, {
    atMost: 20,
  });
  await release?.();
  // In whichever order they get it.
  await Promise.all(waiting.map(async (each) => await (await each)?.()));
  await Promise.all(contenders.map((contender) => contender.close()));
  await admin.end();
}
