import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { useStage } from '../support/hooks/use-stage.ts';
import { compiled } from '../support/process/compiled.ts';
import { LeaseStage, request } from './support/lease-stage.ts';

const PROGRAM = fileURLToPath(new URL('./support/lease-program.ts', import.meta.url));
const LIBRARIES = ['pg.Pool', 'postgres.js'] as const;

const stage = await useStage(LeaseStage.start());
beforeAll(async () => {
  await stage.store().claim(request('warm'));
});

function start(library: string, task: string, name: string): { child: ChildProcess; end: Promise<string> } {
  const child = spawn(process.execPath, [compiled(PROGRAM), stage.url, library, task, name], {
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: 90_000,
    killSignal: 'SIGKILL',
  });
  let output = '';
  child.stdout?.on('data', (data: Buffer) => {
    output += data.toString();
  });
  const end = once(child, 'close').then(([code, signal]) => `${output}${code ?? signal}`);
  return { child, end };
}

const ENDED = 'done\n0';

describe.each(LIBRARIES)('a program runs to its end, under %s', (library) => {
  it('four copies that take one mutex twenty times each', async () => {
    const name = `twenty-${library}`;
    const copies = Array.from({ length: 4 }, () => start(library, 'twenty', name).end);
    expect(await Promise.all(copies)).toEqual(copies.map(() => ENDED));
  });

  it('two hundred tasks that share a semaphore', async () => {
    expect(await start(library, 'tasks', `tasks-${library}`).end).toBe(ENDED);
  });

  it('four copies that only try', async () => {
    const name = `trying-${library}`;
    const copies = Array.from({ length: 4 }, () => start(library, 'trying', name).end);
    expect(await Promise.all(copies)).toEqual(copies.map(() => ENDED));
  });

  it.each(['claim', 'release', 'evict'])('%s while another session has the row locked', async (task) => {
    const name = `${task}-${library}`;
    await stage.store().claim(request(name, { ttlMs: 1 }));
    const { child, end } = start(library, task, name);
    await once(child.stdout ?? child, 'data');
    const blocker = new pg.Client(stage.url);
    await blocker.connect();
    await blocker.query('BEGIN');
    await blocker.query('SELECT 1 FROM holdfast.locks WHERE name = $1 FOR UPDATE', [name]);
    // The server ends it: were this process paused, the other one would give up.
    const unlocked = blocker.query('SELECT pg_sleep(0.3); ROLLBACK');
    child.stdin?.end('go\n');
    await unlocked;
    await blocker.end();
    expect(await end).toBe(`ready\n${ENDED}`);
    const held = task === 'claim' ? 1 : 0;
    expect(await stage.store().read(name)).toHaveLength(held);
  });

  it.each(['read', 'close'])('%s, with nothing else to do', async (task) => {
    expect(await start(library, task, `${task}-${library}`).end).toBe(ENDED);
  });
});
