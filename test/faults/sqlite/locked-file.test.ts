import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { temporaryFolder } from '../../sqlite/support/folder.ts';
import { openWith } from '../../sqlite/support/libraries.ts';
import { startWorker, stopWorkers, type Worker } from '../../sqlite/support/workers.ts';
import { compiled } from '../../support/process/compiled.ts';
import { eventually } from '../../support/waiting/eventually.ts';

// Another process has the file's write lock, so that no call can be carried out.

const PROGRAM = fileURLToPath(new URL('../../sqlite/support/locked-program.ts', import.meta.url));
const folder = temporaryFolder();
const children = new Set<ChildProcess>();
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  await stopWorkers();
  folder.remove();
});

interface Program {
  readonly ready: Promise<unknown>;
  /** Whether it has printed this. */
  hasSaid(text: string): boolean;
  /** What it printed after it was asked to continue, and its exit code. */
  readonly end: Promise<string>;
  go(): void;
}

function start(path: string, task: string, ...args: string[]): Program {
  const argv = ['--expose-gc', compiled(PROGRAM), path, task, ...args];
  const child = spawn(process.execPath, argv, { stdio: ['pipe', 'pipe', 'inherit'] });
  children.add(child);
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  return {
    ready: once(child.stdout, 'data'),
    hasSaid: (text) => output.includes(text),
    end: once(child, 'close').then(([code, signal]) => `${output.replace('ready\n', '')}${code ?? signal}`),
    go: () => void child.stdin.end('go\n'),
  };
}

async function lock(path: string): Promise<Worker> {
  const locker = await startWorker(path, ['stick']);
  await locker.said('stuck');
  return locker;
}

async function unlock(locker: Worker): Promise<void> {
  locker.tell('go on');
  await locker.ended();
}

const CALLS = [
  'acquire',
  'tryAcquire',
  'run',
  'all',
  'once',
  'take',
  'inspect',
  'evict',
  'extend',
  'release',
  'close',
  'open',
] as const;

it.concurrent.each([
  ['as long as the store tries', 700],
  ['longer than the store tries', 5_500],
])(
  'no program ends while a call is pending, with the file locked for %s',
  async (title, ms) => {
    const path = folder.file(`pending ${title}.db`);
    const programs = new Map(CALLS.map((call) => [call, start(path, call)]));
    await Promise.all([...programs.values()].map(({ ready }) => ready));
    const locker = await lock(path);
    for (const { go } of programs.values()) go();
    await sleep(ms);
    await unlock(locker);
    for (const [call, { end }] of programs)
      expect(`${call}: ${await end}`).toMatch(/: (done|rejected with STORE)\n0$/);
  },
  90_000,
);

it.concurrent('callers that give up while the file is locked leave nothing behind', async () => {
  const path = folder.file('outage.db');
  const program = start(path, 'outage', '9000');
  await program.ready;
  const locker = await lock(path);
  program.go();
  // Not after a time: callers that the program still has would be granted what they ask for.
  await eventually('it has called to the end', () => program.hasSaid('done\n'), 40_000);
  await unlock(locker);
  const [figures = '', ...rest] = (await program.end).split('\n');
  const { grownMb } = JSON.parse(figures) as { grownMb: number[] };
  expect(grownMb.length).toBeGreaterThan(3);
  // 50 MB when abandoned requests stay queued.
  expect(Math.max(...grownMb)).toBeLessThan(5);
  expect(rest).toEqual(['done', '0']);
}, 60_000);

it.concurrent('a claim that was abandoned while the file was locked is never carried out', async () => {
  const path = folder.file('abandoned.db');
  const locks = createLocks(sqliteStore(path));
  await (await locks.mutex('warm').acquire()).release();
  const lastFence = (): unknown => {
    const database = openWith('libsql', path);
    const rows = database
      .prepare("SELECT CAST(fence AS TEXT) AS fence FROM holdfast_hold WHERE name = ''")
      .all();
    database.close();
    return rows[0];
  };
  const before = lastFence();
  const locker = await lock(path);
  const controller = new AbortController();
  const calls = Array.from({ length: 100 }, (_, n) => [
    locks.mutex(`aborted ${n}`).acquire({ signal: controller.signal }),
    locks.mutex(`timed out ${n}`).acquire({ waitMs: 100 }),
  ]).flat();
  const settled = Promise.allSettled(calls);
  await sleep(200);
  controller.abort();
  const outcomes = await settled;
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toEqual([]);
  await unlock(locker);
  // Shows that the store works again; what was queued before it would have been executed first.
  expect(await locks.inspect('aborted 0')).toMatchObject({ holders: [], waiters: [] });
  await sleep(300);
  expect(lastFence()).toEqual(before);
  await locks.close();
}, 30_000);
