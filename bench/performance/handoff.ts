import { startRedis } from '../../src/torture/servers/redis.ts';
import { startPostgres } from '../../test/support/servers/postgres.ts';
import { handoffMs } from '../postgres/handoff.ts';
import { measured, PEERS } from '../redis/handoff.ts';
import { p50 } from '../redis/measure.ts';
import type { Curves, Named } from './data.ts';
import type { Effort } from './effort.ts';

/** The compiled workers: many processes of them are started. */
export interface Workers {
  readonly redis: string;
  readonly postgres: string;
}

interface Entrant extends Named {
  readonly figures: number[];
}

const ROUNDS = 3;

const turnsOf = (handoffs: number, workers: number): number =>
  Math.max(Math.ceil(handoffs / workers), ROUNDS);

async function onRedis(effort: Effort, worker: string): Promise<Curves> {
  await using server = await startRedis();
  const pushed: Entrant[] = [
    { name: 'floor: BLPOP', kind: 'floor', figures: [] },
    { name: 'holdfast', kind: 'holdfast', figures: [] },
  ];
  const polled = PEERS.map((name): Entrant => ({ name, kind: 'peer', figures: [] }));
  for (const waiters of effort.handoffWaiters) {
    const workers = waiters + 1;
    for (const [entrants, handoffs] of [
      [pushed, effort.handoffs],
      [polled, effort.polledHandoffs],
    ] as const) {
      const names = entrants.map(({ name }) => name.replace('floor: ', ''));
      const turns = turnsOf(handoffs, workers);
      const results = await measured(server.url, names, { workers, turns, rounds: ROUNDS, worker });
      entrants.forEach(({ figures }, n) => void figures.push(Math.round(results[n]?.us ?? Number.NaN)));
    }
  }
  return { store: 'Redis', points: effort.handoffWaiters, entries: [...pushed, ...polled] };
}

interface PostgresEntrant extends Entrant {
  readonly by: Parameters<typeof handoffMs>[1];
}

async function onPostgres(
  store: string,
  entrants: readonly PostgresEntrant[],
  effort: Effort,
  worker: string,
): Promise<Curves> {
  await using server = await startPostgres();
  for (const waiters of effort.handoffWaiters) {
    const workers = waiters + 1;
    for (const { kind, by, figures } of entrants) {
      const turns = turnsOf(kind === 'peer' ? effort.polledHandoffs : effort.handoffs / 3, workers);
      const samples = await handoffMs(server.url, by, { workers, turns, worker });
      figures.push(Math.round(p50(samples) * 1000));
    }
  }
  const entries = entrants.map(({ name, kind, figures }) => ({ name, kind, figures }));
  return { store, points: effort.handoffWaiters, entries };
}

const floor = { name: 'floor: pg_advisory_lock', kind: 'floor', by: 'floor' } as const;

/** From one process to the next, with more and more of them. */
export async function handoffs(effort: Effort, workers: Workers): Promise<Curves[]> {
  const leases: PostgresEntrant[] = [
    { ...floor, figures: [] },
    { name: 'holdfast', kind: 'holdfast', by: 'lease', figures: [] },
    { name: '@verrou/core with Kysely', kind: 'peer', by: 'verrou', figures: [] },
  ];
  const advisory: PostgresEntrant[] = [
    { ...floor, figures: [] },
    { name: 'holdfast', kind: 'holdfast', by: 'advisory', figures: [] },
  ];
  return [
    await onRedis(effort, workers.redis),
    await onPostgres('PostgreSQL leases', leases, effort, workers.postgres),
    await onPostgres('PostgreSQL advisory', advisory, effort, workers.postgres),
  ];
}
