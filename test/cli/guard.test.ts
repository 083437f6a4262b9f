import { existsSync, readFileSync } from 'node:fs';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { startWorker, stopWorkers } from '../sqlite/support/workers.ts';
import { eventually, later } from '../support/patience.ts';
import { type Holdfast, holdfast, start, stopAll } from './support/holdfast.ts';

const folder = temporaryFolder();
const path = folder.file('locks.db');
const env = { HOLDFAST_URL: `sqlite:${path}` };
afterEach(async () => {
  await stopAll();
  await stopWorkers();
});
afterAll(() => folder.remove());

let unique = 0;

interface Family {
  readonly name: string;
  readonly running: Holdfast;
  /** The command and its child. */
  readonly pids: readonly number[];
  /** When the child last did something, in milliseconds since 1970. */
  lastActiveMs(): number;
}

/** A command with a child that goes on working, both deaf to SIGTERM. */
async function startFamily(terms: readonly string[], deaf = true): Promise<Family> {
  unique += 1;
  const name = `job ${unique}`;
  const file = folder.file(`beats-${unique}`);
  const trap = deaf ? 'trap "" TERM;' : '';
  const child = `${trap} while :; do date +%s%N >> ${file}; sleep 0.02; done`;
  const script = `${trap} sh -c '${child}' & echo "pids $$ $!"; wait; wait`;
  const running = await start(['run', name, ...terms, '--', 'sh', '-c', script], env);
  await running.printed('pids');
  await eventually('the child works', () => existsSync(file) && readFileSync(file, 'utf8').includes('\n'));
  const pids = (/pids (\d+) (\d+)/.exec(running.stdout) ?? []).slice(1).map(Number);
  const lastActiveMs = (): number => Number(readFileSync(file, 'utf8').trim().split('\n').at(-1)) / 1e6;
  return { name, running, pids, lastActiveMs };
}

function alive(pid: number): boolean {
  try {
    // A zombie is not alive.
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

async function allGone(pids: readonly number[], limitMs = 15_000): Promise<void> {
  await eventually(`${pids.join()} are gone`, () => !pids.some(alive), limitMs);
}

/** Waits for the lock in this process, and says when it was had. */
async function nextHolder(name: string): Promise<number> {
  const locks = createLocks(sqliteStore(path));
  const hold = await locks.mutex(name).acquire({ waitMs: 40_000 });
  const atMs = Date.now();
  await hold.release();
  await locks.close();
  return atMs;
}

/** In milliseconds since 1970. */
async function leaseEnd(name: string): Promise<number> {
  const store = sqliteStore(path);
  const [claim] = await store.read(name);
  const endMs = Date.now() + (claim?.expiresInMs ?? 0);
  // Not waited for: closing writes too.
  store.close().catch(() => {});
  return endMs;
}

const TERMS = ['--ttl', '3s', '--grace', '500ms'] as const;

describe('the command never goes on unlocked', () => {
  it('when holdfast is killed with SIGKILL, the command and its children end before anyone else can hold', async () => {
    const family = await startFamily(TERMS);
    const next = later(nextHolder(family.name));
    family.running.child.kill('SIGKILL');
    await allGone(family.pids);
    expect(await next).toBeGreaterThan(family.lastActiveMs());
  });

  it('when holdfast is stopped past its time to live, the guard does the same', async () => {
    const family = await startFamily(TERMS);
    const next = later(nextHolder(family.name));
    family.running.child.kill('SIGSTOP');
    const takenMs = await next;
    expect(takenMs).toBeGreaterThan(family.lastActiveMs());
    expect(family.pids.filter(alive)).toEqual([]);
    family.running.child.kill('SIGCONT');
    expect((await family.running.result()).code).toBe(74);
  });

  it('when the store does not answer, the command and its children end before the lock runs out: 74', async () => {
    const family = await startFamily(TERMS);
    const next = later(nextHolder(family.name));
    const writer = await startWorker(path, ['stick']);
    await writer.said('stuck');
    writer.kill('SIGSTOP');
    // Nothing is written any more, so this is when its lease ends.
    const leaseEndMs = await leaseEnd(family.name);
    const { code, stderr } = await family.running.result();
    expect({ code, stderr }).toEqual({ code: 74, stderr: expect.stringContaining('lost the lock') });
    expect(family.pids.filter(alive)).toEqual([]);
    const endedMs = family.lastActiveMs();
    expect(endedMs).toBeLessThan(leaseEndMs);
    writer.kill('SIGCONT');
    writer.tell('go on');
    expect(await next).toBeGreaterThan(endedMs);
  });

  it('when the lock is taken away, SIGTERM and then SIGKILL end the whole group: 74', async () => {
    const family = await startFamily(['--ttl', '5s', '--grace', '300ms']);
    const [lock] = JSON.parse((await holdfast(['list', family.name, '--json'], env)).stdout) as {
      holders: { id: string }[];
    }[];
    expect((await holdfast(['evict', family.name, lock?.holders[0]?.id ?? ''], env)).code).toBe(0);
    const { code, stderr } = await family.running.result();
    expect({ code, stderr }).toEqual({ code: 74, stderr: expect.stringContaining('lost the lock') });
    expect(family.pids.filter(alive)).toEqual([]);
  });

  it('a lock that was taken away just before the command ended is reported too: 74', async () => {
    const running = await start(['run', 'taken', '--', 'sh', '-c', 'echo in; read -r _; echo out'], env);
    await running.printed('in');
    const locks = createLocks(sqliteStore(path));
    const [holder] = (await locks.inspect('taken')).holders;
    expect(await locks.evict('taken', { id: holder?.id ?? '' })).toBe(true);
    running.child.stdin?.end('go on\n');
    expect(await running.result()).toMatchObject({
      code: 74,
      stdout: 'in\nout\n',
      stderr: expect.stringContaining('before the command ended'),
    });
    await locks.close();
  });

  it('a command that obeys SIGTERM does not have to wait for the grace to end', async () => {
    const family = await startFamily(['--ttl', '30s', '--grace', '20s'], false);
    family.running.child.kill('SIGKILL');
    await allGone(family.pids, 12_000);
  });

  it('when the guard itself is killed, the command is ended: 74', async () => {
    const family = await startFamily(TERMS);
    const parent = Number(
      /^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${family.pids[0]}/status`, 'utf8'))?.[1],
    );
    expect(parent).not.toBe(family.running.child.pid);
    process.kill(parent, 'SIGKILL');
    expect((await family.running.result()).code).toBe(74);
    await allGone(family.pids);
  });

  it('nothing is left behind by a run that went well', async () => {
    const { stdout } = await holdfast(['run', 'clean', '--', 'sh', '-c', 'echo $PPID'], env);
    await allGone([Number(stdout)]);
    expect(JSON.parse((await holdfast(['show', 'clean', '--json'], env)).stdout)).toMatchObject({
      holders: [],
      waiters: [],
    });
  });
});

describe('renewal', () => {
  it('a command may run for much longer than the time to live', async () => {
    const { code, stdout } = await holdfast(
      ['run', 'long', '--ttl', '3s', '--grace', '200ms', '--', 'sh', '-c', 'sleep 4.5; echo done'],
      env,
    );
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'done\n' });
  });
});

describe('signals', () => {
  it.each(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const)(
    '%s is passed on to the command',
    async (signal) => {
      const short = signal.slice(3);
      const script = `trap "echo got; exit 9" ${short}; echo ready; while :; do sleep 0.05; done`;
      const running = await start(['run', `signal ${signal}`, '--', 'sh', '-c', script], env);
      await running.printed('ready');
      running.child.kill(signal);
      expect(await running.result()).toMatchObject({ code: 9, stdout: 'ready\ngot\n' });
    },
  );

  it('one that comes while it waits for the lock ends the wait, and gives the place up', async () => {
    const locks = createLocks(sqliteStore(path));
    const hold = await locks.mutex('waited for').acquire();
    const running = await start(['run', 'waited for', '--wait', 'forever', '--', 'echo', 'never'], env);
    await eventually('it waits', async () => (await locks.inspect('waited for')).waiters.length === 1);
    running.child.kill('SIGTERM');
    expect(await running.result()).toEqual({ code: 143, stdout: '', stderr: '' });
    expect((await locks.inspect('waited for')).waiters).toEqual([]);
    await hold.release();
    await locks.close();
  });
});
