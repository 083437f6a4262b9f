import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks } from 'holdfast';
import { type PostgresPool, postgresAdvisoryStore } from 'holdfast/postgres';
import pg from 'pg';
import postgres from 'postgres';
import { p50, report } from '../redis/measure.ts';
import { type Contender, holdfastOn } from '../shared/contender.ts';
import type { MakeContender } from './contenders.ts';
import { compare, pairs, throughput } from './uncontended.ts';

const LOCK = 'SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS held';
const UNLOCK = 'SELECT pg_advisory_unlock(hashtextextended($1, 0)) AS held';

/** Runs one statement that the server has prepared, on a connection of its own. */
type RunPrepared = (
  name: string,
  text: string,
  lock: string,
) => Promise<{ readonly held: boolean } | undefined>;

/**
 * The two statements of the usual hand-written lock, prepared so that the server parses and plans
 * them once, on one connection and one after the other.
 */
function floorOf(run: RunPrepared, close: () => Promise<void>): Contender {
  let last: Promise<unknown> = Promise.resolve();
  const inTurn: RunPrepared = (name, text, lock) => {
    const sent = last.then(() => run(name, text, lock));
    last = sent.catch(() => {});
    return sent;
  };
  return {
    name: 'floor: the two statements',
    async acquire(lock) {
      if (!(await inTurn('floor_lock', LOCK, lock))?.held) throw new Error('held');
      return () => inTurn('floor_unlock', UNLOCK, lock);
    },
    close,
  };
}

export const floorOnPg: MakeContender = async (url) => {
  const client = new pg.Client(url);
  await client.connect();
  const run: RunPrepared = async (name, text, lock) =>
    (await client.query<{ held: boolean }>({ name, text, values: [lock] })).rows[0];
  return floorOf(run, () => client.end());
};

/** It names and prepares the statements by itself. */
const floorOnPostgresJs: MakeContender = async (url) => {
  const sql = postgres(url, { max: 1 });
  const run: RunPrepared = async (_name, text, lock) =>
    (await sql.unsafe<{ held: boolean }[]>(text, [lock], { prepare: true }))[0];
  return floorOf(run, () => sql.end());
};

function advisoryOn(pool: PostgresPool, end: () => Promise<void>): Contender {
  const locks = createLocks(postgresAdvisoryStore(pool), { waitMs: Number.POSITIVE_INFINITY });
  return holdfastOn(locks, end, 'holdfast advisory');
}

export const advisory: MakeContender = async (url) => {
  const pool = new pg.Pool({ connectionString: url });
  return advisoryOn(pool, () => pool.end());
};

const advisoryOnPostgresJs: MakeContender = async (url) => {
  const sql = postgres(url);
  return advisoryOn(sql, () => sql.end());
};

const LIBRARIES: Readonly<Record<string, readonly [MakeContender, MakeContender]>> = {
  pg: [floorOnPg, advisory],
  'postgres.js': [floorOnPostgresJs, advisoryOnPostgresJs],
};

/**
 * The scheduler's choice of a core for a server process makes up to half of a round trip, and stays
 * for the life of a connection: each round has new connections.
 */
const ROUNDS = 7;

export async function advisoryOne(url: string): Promise<void> {
  for (const [library, contenders] of Object.entries(LIBRARIES)) {
    const ratios: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const { own, least } = await compare(url, 'ms', pairs, contenders);
      ratios.push(own / least);
    }
    const title = `advisory, ${library}, one at a time: p50 of acquire + release, to the floor`;
    report(title, p50(ratios), { atMost: 1.25 });
  }
}

export async function advisoryHundred(url: string): Promise<void> {
  const measure = (contender: Contender): Promise<number[]> => throughput(contender, 100);
  const { own, least } = await compare(url, 'pairs/s', measure, [floorOnPg, advisory]);
  report('advisory, 100 tasks on 100 names: throughput, to the floor', own / least, { atLeast: 1.2 });
}

const WATCH_MS = 5_000;

/**
 * Fifty claims that wait, in five processes as the server sees them, for one holder that does not
 * release.
 */
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
          `SELECT coalesce(sum(calls), 0) AS calls FROM pg_stat_statements
            WHERE query NOT LIKE '%pg_stat_statements%'
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
  // In any order.
  await Promise.all(waiting.map(async (each) => await (await each)?.()));
  await Promise.all(contenders.map((contender) => contender.close()));
  await admin.end();
}
