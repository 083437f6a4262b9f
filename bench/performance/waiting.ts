import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import pg from 'pg';
import { startRedis } from '../../src/torture/servers/redis.ts';
import { startPostgres } from '../../test/support/servers/postgres.ts';
import { advisory } from '../postgres/advisory.ts';
import { blocking } from '../postgres/blocking.ts';
import { holdfast as leases, verrou } from '../postgres/contenders.ts';
import { statements } from '../postgres/counted.ts';
import { holdfast, peers } from '../redis/contenders.ts';
import type { Contender } from '../shared/contender.ts';
import type { Kind, Waiting } from './data.ts';
import type { Effort } from './effort.ts';

/** Asks the server, without being counted itself. */
interface Counter {
  commands(): Promise<number>;
  connections(): Promise<number>;
}

interface Entrant {
  readonly kind: Kind;
  readonly name?: string;
  make(): Contender | Promise<Contender>;
}

/** Waiters settle before they are counted: they subscribe, and their first polls are closer together. */
const SETTLE_MS = 1_000;

async function measure(store: string, entrants: readonly Entrant[], counter: Counter, effort: Effort) {
  const entries: Waiting['entries'][number][] = [];
  const idle = await counter.connections();
  for (const { kind, name, make } of entrants) {
    // The holder and the waiters are in two processes, as the server sees it.
    const [holder, waiter] = [await make(), await make()];
    const lock = `bench-waiting-${entries.length}`;
    const release = await holder.acquire(lock);
    const waiting = Array.from({ length: effort.waiters }, () => waiter.acquire(lock));
    await sleep(Math.min(SETTLE_MS, effort.waitingMs));
    const from = await counter.commands();
    await sleep(effort.waitingMs);
    const commands = (await counter.commands()) - from;
    const connections = (await counter.connections()) - idle;
    const perSecond = Math.round((commands * 10_000) / effort.waitingMs) / 10;
    entries.push({ name: name ?? holder.name, kind, perSecond, connections });
    await release();
    await Promise.all(waiting.map(async (each) => await (await each)()));
    await holder.close();
    await waiter.close();
    for (let tries = 0; tries < 200 && (await counter.connections()) > idle; tries += 1) await sleep(25);
  }
  return { store, waiters: effort.waiters, entries };
}

async function onRedis(effort: Effort): Promise<Waiting> {
  await using server = await startRedis();
  const admin = new Redis(server.url);
  const statistic = async (section: string, name: string): Promise<number> =>
    Number(new RegExp(`${name}:(\\d+)`).exec(await admin.info(section))?.[1]);
  const counter = {
    // One of the two calls of INFO counts itself.
    commands: async () => Math.max((await statistic('stats', 'total_commands_processed')) - 1, 0),
    connections: () => statistic('clients', 'connected_clients'),
  };
  const makers = [holdfast, ...peers].map((make, n): Entrant => {
    return { kind: n === 0 ? 'holdfast' : 'peer', make: () => make(server.url) };
  });
  const result = await measure('Redis', makers, counter, effort);
  admin.disconnect();
  return result;
}

async function onPostgres(effort: Effort): Promise<Waiting[]> {
  await using server = await startPostgres({ settings: { max_connections: '200' } });
  const pool = new pg.Pool({ connectionString: server.url, max: 1 });
  await pool.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
  const counter = {
    commands: () => statements(pool),
    connections: async () => {
      const { rows } = await pool.query(
        "SELECT count(*)::int AS n FROM pg_stat_activity WHERE backend_type = 'client backend'",
      );
      return Number(rows[0].n);
    },
  };
  const floor: Entrant = { kind: 'floor', make: () => blocking(server.url) };
  const own = (make: typeof leases): Entrant => ({
    kind: 'holdfast',
    name: 'holdfast',
    make: () => make(server.url),
  });
  const peer: Entrant = { kind: 'peer', make: () => verrou(server.url) };
  const results = [
    await measure('PostgreSQL leases', [floor, own(leases), peer], counter, effort),
    await measure('PostgreSQL advisory', [floor, own(advisory)], counter, effort),
  ];
  await pool.end();
  return results;
}

/** What waiters cost while the lock is held. */
export async function waiting(effort: Effort): Promise<Waiting[]> {
  return [await onRedis(effort), ...(await onPostgres(effort))];
}
