import { existsSync, readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { startWorker, stopWorkers } from '../sqlite/support/workers.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { type Holdfast, holdfast, start, stopAll } from './support/holdfast.ts';

const folder = temporaryFolder();
afterAll(async () => {
  await stopAll();
  await stopWorkers();
  folder.remove();
});

let files = 0;

/** A database of its own: one of these tests blocks the file that its commands use. */
function makeDatabase(): { readonly path: string; readonly env: { readonly HOLDFAST_URL: string } } {
  files += 1;
  const path = folder.file(`locks-${files}.db`);
  return { path, env: { HOLDFAST_URL: `sqlite:${path}` } };
}

interface Family {
  readonly name: string;
  readonly path: string;
  readonly env: { readonly HOLDFAST_URL: string };
  readonly running: Holdfast;
  /** The command and its child. */
  readonly pids: readonly number[];
  /** When the child last did something, in milliseconds since 1970. */
  lastActiveMs(): number;
}

/** A command with a child that keeps working. Both ignore SIGTERM unless `obeysTerm`. */
async function startFamily(terms: readonly string[], obeysTerm = false): Promise<Family> {
  const { path, env } = makeDatabase();
  const name = 'job';
  const file = `${path}-beats`;
  const trap = obeysTerm ? '' : 'trap "" TERM;';
  const child = `${trap} while :; do date +%s%N >> ${file}; sleep 0.02; done`;
  const parent = `trap "echo heard" USR1; ${trap} sh -c '${child}' & echo "pids $$ $!"`;
  const script = `${parent}; while :; do wait; done`;
  const running = await start(['run', name, ...terms, '--', 'sh', '-c', script], env);
  await running.printed('pids');
  await eventually('the child works', () => existsSync(file) && readFileSync(file, 'utf8').includes('\n'));
  const pids = (/pids (\d+) (\d+)/.exec(running.stdout) ?? []).slice(1).map(Number);
  const lastActiveMs = (): number => Number(readFileSync(file, 'utf8').trim().split('\n').at(-1)) / 1e6;
  return { name, path, env, running, pids, lastActiveMs };
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

/** Acquires the lock of the family in this process. Resolves to the time of the grant. */
async function nextHolder({ name, path }: Family): Promise<number> {
  const locks = createLocks(sqliteStore(path));
  const hold = await locks.mutex(name).acquire({ waitMs: 40_000 });
  const atMs = Date.now();
  await hold.release();
  await locks.close();
  return atMs;
}

/** In milliseconds since 1970. */
async function leaseEnd({ name, path }: Family): Promise<number> {
  const store = sqliteStore(path);
  const [claim] = await store.read(name);
  const endMs = Date.now() + (claim?.expiresInMs ?? 0);
  // Not waited for: closing writes too.
  store.close().catch(() => {});
  return endMs;
}

/** The guard ends the command a second before the lease ends, which a TTL below 5 s would make less. */
const TERMS = ['--ttl', '6s', '--grace', '500ms'] as const;

describe.concurrent('the command never continues without the lock', () => {
  it('when holdfast is killed: the command and its children end before another can hold', async () => {
    const family = await startFamily(TERMS);
    const next = later(nextHolder(family));
    family.running.child.kill('SIGKILL');
    await allGone(family.pids);
    expect(await next).toBeGreaterThan(family.lastActiveMs());
  });

  it('when holdfast is paused past its TTL: the guard ends the command and its children', async () => {
    const family = await startFamily(TERMS);
    const next = later(nextHolder(family));
    family.running.child.kill('SIGSTOP');
    const takenMs = await next;
    await allGone(family.pids);
    expect(takenMs).toBeGreaterThan(family.lastActiveMs());
    family.running.child.kill('SIGCONT');
    expect((await family.running.result()).code).toBe(74);
  });

  it('when the store is silent: the command and its children end before the lease, exit 74', async () => {
    const family = await startFamily(TERMS);
    const next = later(nextHolder(family));
    const writer = await startWorker(family.path, ['stick']);
    await writer.said('stuck');
    writer.kill('SIGSTOP');
    // Nothing is written any more, so this is when its lease ends.
    const leaseEndMs = await leaseEnd(family);
    const { code, stderr } = await family.running.result();
    expect({ code, stderr }).toEqual({ code: 74, stderr: expect.stringContaining('lost the lock') });
    await allGone(family.pids);
    const endedMs = family.lastActiveMs();
    expect(endedMs).toBeLessThan(leaseEndMs);
    writer.kill('SIGCONT');
    writer.tell('go on');
    expect(await next).toBeGreaterThan(endedMs);
  });

  it('when the lock is evicted: SIGTERM and then SIGKILL end the whole group, exit 74', async () => {
    const family = await startFamily(['--ttl', '12s', '--grace', '300ms']);
    const [lock] = JSON.parse((await holdfast(['list', family.name, '--json'], family.env)).stdout) as {
      holders: { id: string }[];
    }[];
    expect(
      (await holdfast(['evict', family.name, lock?.holders[0]?.id ?? '', '--yes'], family.env)).code,
    ).toBe(0);
    const { code, stderr } = await family.running.result();
    expect({ code, stderr }).toEqual({ code: 74, stderr: expect.stringContaining('lost the lock') });
    await allGone(family.pids);
  });

  it('when the lock is evicted just before the command ends: exit 74 as well', async () => {
    const { path, env } = makeDatabase();
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

  it('a command that obeys SIGTERM does not wait for the end of the grace', async () => {
    const family = await startFamily(['--ttl', '30s', '--grace', '20s'], true);
    family.running.child.kill('SIGKILL');
    await allGone(family.pids, 12_000);
  });

  it('when the guard itself is killed: the command is ended, exit 74', async () => {
    const family = await startFamily(['--ttl', '30s', '--grace', '500ms']);
    const parent = Number(
      /^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${family.pids[0]}/status`, 'utf8'))?.[1],
    );
    expect(parent).not.toBe(family.running.child.pid);
    // The command runs before the guard has reported it. A signal that arrives came after that
    // report.
    family.running.child.kill('SIGUSR1');
    await family.running.printed('heard');
    process.kill(parent, 'SIGKILL');
    expect((await family.running.result()).code).toBe(74);
    await allGone(family.pids);
  });

  it('a run that succeeds leaves no process and no claim', async () => {
    const { env } = makeDatabase();
    const { stdout } = await holdfast(['run', 'clean', '--', 'sh', '-c', 'echo $PPID'], env);
    await allGone([Number(stdout)]);
    expect(JSON.parse((await holdfast(['show', 'clean', '--json'], env)).stdout)).toMatchObject({
      holders: [],
      waiters: [],
    });
  });
});

describe.concurrent('a child that outlives the command', () => {
  /** Runs a command that leaves a child behind. Resolves to the child when the guard has ended. */
  async function leaveChild(exitCode: number): Promise<number> {
    const { env } = makeDatabase();
    const script = `sleep 100 > /dev/null 2>&1 & echo "pids $PPID $!"; exit ${exitCode}`;
    const { code, stdout } = await holdfast(['run', 'parent', '--', 'sh', '-c', script], env);
    expect(code).toBe(exitCode);
    const [guard = 0, child = 0] = (/pids (\d+) (\d+)/.exec(stdout) ?? []).slice(1).map(Number);
    await allGone([guard]);
    return child;
  }

  it('is left alone when the command has succeeded', async () => {
    const child = await leaveChild(0);
    expect(alive(child)).toBe(true);
    process.kill(child, 'SIGKILL');
  });

  it('is ended when the command has failed', async () => {
    expect(alive(await leaveChild(3))).toBe(false);
  });
});

describe.concurrent('renewal', () => {
  it('a command may run for much longer than the TTL', async () => {
    const { env } = makeDatabase();
    const { code, stdout } = await holdfast(
      ['run', 'long', '--ttl', '6s', '--grace', '200ms', '--', 'sh', '-c', 'sleep 9; echo done'],
      env,
    );
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'done\n' });
  });
});

describe.concurrent('signals', () => {
  it.each(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const)(
    '%s is passed on to the command',
    async (signal) => {
      const { env } = makeDatabase();
      const short = signal.slice(3);
      const script = `trap "echo got; exit 9" ${short}; echo ready; while :; do sleep 0.05; done`;
      const running = await start(['run', `signal ${signal}`, '--', 'sh', '-c', script], env);
      await running.printed('ready');
      running.child.kill(signal);
      expect(await running.result()).toMatchObject({ code: 9, stdout: 'ready\ngot\n' });
    },
  );

  it('a signal during the wait for the lock ends the wait and removes the waiter', async () => {
    const { path, env } = makeDatabase();
    const locks = createLocks(sqliteStore(path));
    const hold = await locks.mutex('waited for').acquire();
    const running = await start(['run', 'waited for', '--wait', 'forever', '--', 'echo', 'never'], env);
    await eventually('holdfast waits', async () => (await locks.inspect('waited for')).waiters.length === 1);
    running.child.kill('SIGTERM');
    expect(await running.result()).toEqual({ code: 143, stdout: '', stderr: '' });
    expect((await locks.inspect('waited for')).waiters).toEqual([]);
    await hold.release();
    await locks.close();
  });
});
