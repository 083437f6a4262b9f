import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { alternate, p50, report } from './measure.ts';

const WORKER = fileURLToPath(new URL('./handover-worker.ts', import.meta.url));
const PEERS = [
  'redlock 5',
  '@sesamecare-oss/redlock',
  'redis-semaphore',
  'redlock-universal',
  '@verrou/core',
];
const ROUNDS = 3;
/** Of each process: after a few turns only, the time to compile would be measured. A service has long been running. */
const TURNS_MIN = 100;

interface Hold {
  readonly worker: number;
  readonly asked: number;
  readonly begun: number;
  readonly ended: number;
}

/** Processes that pass one lock around: every hold of theirs, in order. */
async function run(url: string, name: string, workers: number, rounds: number): Promise<Hold[]> {
  const admin = new Redis(url);
  await admin.flushall();
  const children = Array.from({ length: workers }, () =>
    spawn(process.execPath, ['--import', 'tsx', WORKER, url, name, `${rounds}`], {
      stdio: ['pipe', 'pipe', 'inherit'],
    }),
  );
  const lines = children.map((child) => createInterface({ input: child.stdout })[Symbol.asyncIterator]());
  for (const line of lines) await line.next();
  if (name === 'BLPOP') await admin.rpush('bench-handover', '1');
  for (const child of children) child.stdin.write('go\n');
  const holds: Hold[] = [];
  for (const [worker, line] of lines.entries()) {
    const { value } = await line.next();
    for (const [asked, begun, ended] of JSON.parse(String(value)) as Array<[number, number, number]>)
      holds.push({ worker, asked, begun, ended });
  }
  admin.disconnect();
  return holds.sort((a, b) => a.begun - b.begun);
}

/** us from one process's decision to let go until another had it, where that one was waiting by then. */
function gaps(holds: readonly Hold[]): number[] {
  const result: number[] = [];
  for (let n = 1; n < holds.length; n += 1) {
    const [before, after] = [holds[n - 1], holds[n]];
    if (before !== undefined && after !== undefined && after.asked < before.ended)
      result.push(after.begun - before.ended);
  }
  return result;
}

/** A request needs this long to arrive at most, so who asked later than that after another must not be served before it. */
const ARRIVAL_US = 20_000;

/** How many were served before somebody who had asked well before them. */
function outOfOrder(holds: readonly Hold[]): number {
  return holds.filter((hold, n) => holds.slice(n + 1).some((later) => later.asked + ARRIVAL_US < hold.asked))
    .length;
}

interface Measured {
  readonly us: number;
  readonly disorder: number;
}

/** In alternating rounds, so that a slow moment of the machine hits all of them alike. */
async function measured(
  url: string,
  names: readonly string[],
  workers: number,
  turns: number,
): Promise<Measured[]> {
  const results = await alternate(names, ROUNDS, async (name) => {
    const holds = await run(url, name, workers, turns);
    return [p50(gaps(holds)), outOfOrder(holds)];
  });
  return names.map((name) => {
    const rounds = results.get(name) ?? [];
    return {
      us: p50(rounds.map(([us = Number.NaN]) => us)),
      disorder: rounds.reduce((sum, [, disorder = 0]) => sum + disorder, 0),
    };
  });
}

/** One process passes a lock to the next while so many wait. */
export async function handover(url: string, waiters: number): Promise<void> {
  const workers = waiters + 1;
  const turns = Math.max(Math.ceil(300 / workers), TURNS_MIN);
  const [floor, own] = (await measured(url, ['BLPOP', 'holdfast'], workers, turns)) as [Measured, Measured];
  console.log(`      ${waiters} waiting: BLPOP ${floor.us.toFixed(0)} us, holdfast ${own.us.toFixed(0)} us`);
  report(`hand-over with ${waiters} waiting, to a bare BLPOP`, own.us / floor.us, { atMost: 2 });
  report(`hand-overs out of order with ${waiters} waiting`, own.disorder, { atMost: 0 });
  const others = await measured(url, PEERS, workers, Math.max(Math.ceil(turns / 10), 4));
  others.forEach(({ us }, n) => {
    console.log(`      ${waiters} waiting: ${PEERS[n]} ${us.toFixed(0)} us`);
  });
  report(`the best peer with ${waiters} waiting, to us`, Math.min(...others.map(({ us }) => us)) / own.us, {
    atLeast: waiters === 1 ? 4 : 1,
  });
}
