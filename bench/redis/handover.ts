import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { p50, report } from './measure.ts';

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

async function measured(
  url: string,
  name: string,
  workers: number,
  rounds: number,
): Promise<{ us: number; disorder: number }> {
  const samples: number[] = [];
  let disorder = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const holds = await run(url, name, workers, rounds);
    samples.push(p50(gaps(holds)));
    disorder += outOfOrder(holds);
  }
  return { us: p50(samples), disorder };
}

/** One process passes a lock to the next while so many wait. */
export async function handover(url: string, waiters: number): Promise<void> {
  const workers = waiters + 1;
  const rounds = Math.max(Math.ceil(300 / workers), TURNS_MIN);
  const floor = await measured(url, 'BLPOP', workers, rounds);
  const own = await measured(url, 'holdfast', workers, rounds);
  console.log(`      ${waiters} waiting: BLPOP ${floor.us.toFixed(0)} us, holdfast ${own.us.toFixed(0)} us`);
  report(`hand-over with ${waiters} waiting, to a bare BLPOP`, own.us / floor.us, { atMost: 2 });
  report(`hand-overs out of order with ${waiters} waiting`, own.disorder, { atMost: 0 });
  const results = [];
  for (const peer of PEERS) {
    const { us } = await measured(url, peer, workers, Math.max(Math.ceil(rounds / 10), 4));
    console.log(`      ${waiters} waiting: ${peer} ${us.toFixed(0)} us`);
    results.push(us);
  }
  report(`the best peer with ${waiters} waiting, to us`, Math.min(...results) / own.us, {
    atLeast: waiters === 1 ? 4 : 1,
  });
}
