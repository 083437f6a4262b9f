import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createLocks } from 'holdfast';
import { sqliteStore } from 'holdfast/sqlite';
import { type Finding, median } from './measure.ts';

const WAITERS = 20;
const WATCH_MS = 10_000;
const TURNS = 150;
/** What /proc counts CPU time in. */
const TICK_MS = 10;

function start(...args: string[]): {
  child: ChildProcess;
  said(key: string): Promise<Record<string, unknown>>;
} {
  const file = fileURLToPath(new URL('./worker.ts', import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', file, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const heard: Record<string, unknown>[] = [];
  if (child.stdout !== null)
    createInterface({ input: child.stdout }).on('line', (line) => heard.push(JSON.parse(line)));
  return {
    child,
    async said(key) {
      for (let tries = 0; tries < 6_000; tries += 1) {
        const found = heard.find((message) => key in message);
        if (found !== undefined) return found;
        await sleep(10);
      }
      throw new Error(`a worker did not say ${key}`);
    },
  };
}

/** From the call of release in one process to the grant in another, with two that always want it. */
export async function handoffs(folder: string): Promise<Finding[]> {
  const locks = createLocks(sqliteStore(`${folder}/pass.db`));
  const hold = await locks.mutex('passed on').acquire();
  const workers = [1, 2].map(() => start(`${folder}/pass.db`, 'pass', String(TURNS)));
  await Promise.all(workers.map((worker) => worker.said('ready')));
  await sleep(200);
  await hold.release();
  const told = await Promise.all(
    workers.map(async (worker) => (await worker.said('turns')).turns as { fromMs: number; toMs: number }[]),
  );
  await locks.close();
  const turns = told
    .flatMap((list, worker) => list.map((turn) => ({ ...turn, worker })))
    .sort((a, b) => a.fromMs - b.fromMs);
  const gaps = turns
    .slice(1)
    .flatMap((turn, n) => (turns[n]?.worker === turn.worker ? [] : [turn.fromMs - (turns[n]?.toMs ?? 0)]));
  const p50 = median(gaps);
  const p99 = [...gaps].sort((a, b) => a - b)[Math.floor(gaps.length * 0.99)] ?? Number.NaN;
  const value = `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms, ${gaps.length} handoffs`;
  return [
    {
      what: 'handoff between processes',
      value,
      target: 'p50 ≤ 5 ms',
      met: p50 <= 5 && gaps.length > TURNS,
    },
  ];
}

function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** The CPU time that twenty processes use, all together, while they wait for a lock that is held. */
export async function idle(folder: string): Promise<Finding[]> {
  const locks = createLocks(sqliteStore(`${folder}/idle.db`));
  const hold = await locks.mutex('held').acquire();
  const workers = Array.from({ length: WAITERS }, () => start(`${folder}/idle.db`, 'wait'));
  await Promise.all(workers.map((worker) => worker.said('waiting')));
  await sleep(2_000);
  const used = (): number => workers.reduce((sum, { child }) => sum + cpuMs(child.pid ?? 0), 0);
  const before = used();
  await sleep(WATCH_MS);
  const share = (used() - before) / WATCH_MS;
  for (const { child } of workers) {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  await hold.release();
  await locks.close();
  return [
    {
      what: `${WAITERS} processes waiting, CPU time together`,
      value: `${(share * 100).toFixed(2)} % of one core`,
      target: '≤ 5 %',
      met: share <= 0.05,
    },
  ];
}
