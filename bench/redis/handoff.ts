import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { Circle, gaps, type Hold } from './circle.ts';
import { alternate, p50, report } from './measure.ts';

const WORKER = fileURLToPath(new URL('./handoff-worker.ts', import.meta.url));
export const PEERS = [
  'redlock 5',
  '@sesamecare-oss/redlock',
  'redis-semaphore',
  'redlock-universal',
  '@verrou/core',
];
const ROUNDS = 9;
/** Of each process, over all rounds. */
const TURNS_MIN = 300;

/** A request arrives within this time. One that is sent later than that must not be served earlier. */
const ARRIVAL_US = 20_000;

/** How many holds were served before one that had been asked for well before. */
function outOfOrder(holds: readonly Hold[]): number {
  return holds.filter((hold, n) => holds.slice(n + 1).some((later) => later.asked + ARRIVAL_US < hold.asked))
    .length;
}

interface Measured {
  readonly us: number;
  readonly disorder: number;
}

interface Turns {
  readonly workers: number;
  /** Of each process, over all rounds. */
  readonly turns: number;
  readonly rounds?: number;
  /** The worker, where it is compiled: many of them start faster. */
  readonly worker?: string;
}

/** In alternating rounds, so that a slow moment of the machine hits all of them alike. */
export async function measured(
  url: string,
  names: readonly string[],
  { workers, turns, rounds = ROUNDS, worker = WORKER }: Turns,
): Promise<Measured[]> {
  const admin = new Redis(url);
  await admin.flushall();
  await admin.rpush('bench-handoff BLPOP', '1');
  admin.disconnect();
  const circles = new Map<string, Circle>();
  for (const name of names) circles.set(name, await Circle.start(worker, [url, name], workers));
  const results = await alternate(names, rounds, async (name) => {
    const holds = (await circles.get(name)?.round(Math.ceil(turns / rounds))) ?? [];
    return [p50(gaps(holds)), outOfOrder(holds)];
  });
  for (const circle of circles.values()) circle.stop();
  return names.map((name) => {
    const figures = results.get(name) ?? [];
    return {
      us: p50(figures.map(([us = Number.NaN]) => us)),
      disorder: figures.reduce((sum, [, disorder = 0]) => sum + disorder, 0),
    };
  });
}

/** One process passes a lock to the next while this many wait. */
export async function handoff(url: string, waiters: number): Promise<void> {
  const workers = waiters + 1;
  const turns = Math.max(Math.ceil(900 / workers), TURNS_MIN);
  const [floor, own] = (await measured(url, ['BLPOP', 'holdfast'], { workers, turns })) as [
    Measured,
    Measured,
  ];
  console.log(`      ${waiters} waiting: BLPOP ${floor.us.toFixed(0)} us, holdfast ${own.us.toFixed(0)} us`);
  report(`handoff with ${waiters} waiting, to a bare BLPOP`, own.us / floor.us, { atMost: 2 });
  report(`handoffs out of order with ${waiters} waiting`, own.disorder, { atMost: 0 });
  const others = await measured(url, PEERS, { workers, turns: Math.max(Math.ceil(turns / 10), 18) });
  others.forEach(({ us }, n) => {
    console.log(`      ${waiters} waiting: ${PEERS[n]} ${us.toFixed(0)} us`);
  });
  report(`the best peer with ${waiters} waiting, to us`, Math.min(...others.map(({ us }) => us)) / own.us, {
    atLeast: waiters === 1 ? 4 : 1,
  });
}
