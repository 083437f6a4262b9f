import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createLocks } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { check } from './checks.ts';
import { Ledger } from './ledger.ts';
import { LOCK, nowMs, PLANS, type Plan, type Told } from './story.ts';
import { printChart, printChecks, printTold } from './timeline.ts';
import { timelineSvg } from './timeline-svg.ts';

// Five processes add to one balance under one lock. One of them is killed while it holds the lock,
// one is paused until its lock has gone to others. Then the demo looks at what really happened, and
// fails if anything was not as promised. `npm run demo -- --svg FILE` also draws it as a picture.

const GIVE_UP_MS = 60_000;
const { values } = parseArgs({ options: { svg: { type: 'string' } } });
const folder = mkdtempSync(join(tmpdir(), 'holdfast-demo-'));
const story: Told[] = [];
const children = new Map<string, ChildProcess>();
const startMs = nowMs();

function add(told: Told): void {
  story.push(told);
  printTold(told, startMs);
}

function startWorker({ worker, fate }: Plan): ChildProcess {
  const file = fileURLToPath(new URL('./worker.ts', import.meta.url));
  const child = spawn(process.execPath, [...process.execArgv, file, worker, folder, fate], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.set(worker, child);
  if (child.stdout !== null) {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const told = JSON.parse(line) as Told;
      add(told);
      if (told.what === 'midway') void meetFate(worker, fate);
    });
  }
  return child;
}

async function meetFate(worker: string, fate: Plan['fate']): Promise<void> {
  const child = children.get(worker);
  if (fate === 'killed') {
    child?.kill('SIGKILL');
    add({ worker, atMs: nowMs(), what: 'killed' });
  }
  if (fate !== 'paused') return;
  child?.kill('SIGSTOP');
  const atMs = nowMs();
  add({ worker, atMs, what: 'paused' });
  // Until another worker has held the lock and written: then the paused worker is a stale holder.
  while (!story.some((told) => told.what === 'wrote' && told.worker !== worker && told.atMs > atMs))
    await sleep(20);
  child?.kill('SIGCONT');
  add({ worker, atMs: nowMs(), what: 'resumed' });
}

async function play(): Promise<{ queue: string[]; balance: number }> {
  const ledger = new Ledger(join(folder, 'ledger.db'));
  ledger.create();
  const locks = createLocks(sqliteStore(join(folder, 'locks.db')), { owner: 'the demo' });
  // Held until all of them wait in the queue, so that their order is known.
  const hold = await locks.mutex(LOCK).acquire();
  const ended = PLANS.map(async (plan) => await once(startWorker(plan), 'exit'));
  let queue: string[] = [];
  while (queue.length < PLANS.length) {
    await sleep(50);
    queue = (await locks.inspect(LOCK)).waiters.map(({ owner }) => owner ?? '?');
  }
  await hold.release();
  await Promise.all(ended);
  const balance = ledger.read();
  ledger.close();
  await locks.close();
  return { queue, balance };
}

async function main(): Promise<number> {
  console.log('Five processes share one SQLite file of locks and add to one balance, three times each.\n');
  try {
    const tooLong = sleep(GIVE_UP_MS, null, { ref: false });
    const result = await Promise.race([play(), tooLong]);
    if (result === null) {
      console.log(`\n  ✘ The demo did not come to an end within ${GIVE_UP_MS / 1000} s.`);
      return 1;
    }
    printChart(story);
    if (values.svg !== undefined) writeFileSync(values.svg, timelineSvg(story));
    const checks = check(story, result.queue, result.balance);
    printChecks(checks);
    const failed = checks.filter(({ problem }) => problem !== null).length;
    console.log(
      failed === 0
        ? '\nEverything was as promised.\n'
        : `\n${failed} of ${checks.length} promises were broken.\n`,
    );
    return failed === 0 ? 0 : 1;
  } finally {
    for (const child of children.values())
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

process.exit(await main());
