import { afterAll, describe, expect, it } from 'vitest';
import { createLocks, type Locks, openLocks } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { startFaultProxy } from '../../src/torture/servers/fault-proxy.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { holdfast, stopAll } from './support/holdfast.ts';
import { startShell } from './support/shell.ts';

const folder = temporaryFolder();
const path = folder.file('locks.db');
const env = { HOLDFAST_URL: `sqlite:${path}` };
const opened: Locks[] = [];
afterAll(async () => {
  await stopAll();
  await Promise.all(opened.map((locks) => locks.close({ drainMs: 0 })));
  folder.remove();
});

function locksOf(owner: string): Locks {
  const locks = createLocks(sqliteStore(path), { owner });
  opened.push(locks);
  return locks;
}

const holdersOf = async (locks: Locks, name: string): Promise<string[]> =>
  (await locks.inspect(name)).holders.map((claim) => claim.id);

describe.concurrent('evict without a terminal', () => {
  it.concurrent('needs --yes, and evicts nothing without it', async () => {
    const locks = locksOf('web-1');
    const hold = await locks.mutex('unasked').acquire();
    for (const args of [[hold.id], ['--all', '--json']]) {
      const { code, stdout, stderr } = await holdfast(['evict', 'unasked', ...args], env);
      expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
      expect(stderr).toContain('give --yes');
    }
    expect(await holdersOf(locks, 'unasked')).toEqual([hold.id]);
  });

  it.concurrent('needs either a claim or --all, and a use that exists', async () => {
    for (const args of [['x'], ['x', 'claim', '--all'], ['x', 'claim', '--use', 'mutex']]) {
      const { code, stdout, stderr } = await holdfast(['evict', ...args, '--yes'], env);
      expect({ args, code, stdout, said: stderr !== '' }).toEqual({ args, code: 64, stdout: '', said: true });
    }
  });

  it.concurrent('reports the claims that were evicted before the store failed', async () => {
    await using redis = await startRedis();
    const locks = await openLocks(redis.url, { owner: 'web-1' });
    opened.push(locks);
    // The command line gets no further while this process is stalled: its messages pass through it.
    await using proxy = await startFaultProxy(redis.port);
    const permits = 100;
    const workers = locks.semaphore('many', { permits });
    await Promise.all(Array.from({ length: permits }, () => workers.acquire()));
    // Having waited for a lock, this process is subscribed, and is notified of an eviction at once.
    const first = await locks.mutex('other').acquire();
    const second = locks.mutex('other').acquire();
    await eventually('waits', async () => (await locks.inspect('other')).waiters.length === 1);
    await first.release();
    await second;
    let losses = 0;
    const url = `redis://127.0.0.1:${proxy.port}`;
    const evicting = later(holdfast(['evict', 'many', '--all', '--yes'], { HOLDFAST_URL: url }));
    // The claims are evicted one after the other: the first eviction was answered before the second
    // loss, and most of them are left then.
    await new Promise<void>((resolve) =>
      locks.on('lost', () => {
        losses += 1;
        if (losses === 2) resolve();
      }),
    );
    redis.kill('SIGKILL');
    const { code, stdout, stderr } = await evicting;
    expect(code).toBe(69);
    expect(stderr).toMatch(/^holdfast: /);
    const lines = stdout.trim().split('\n');
    expect(lines.length).toBeLessThan(permits);
    for (const line of lines) expect(line).toMatch(/^Took "many" away from claim web-1#\S+$/);
  });

  it.concurrent('evicts exactly one claim, and gives 1 when it is gone', async () => {
    const locks = locksOf('web-1');
    const hold = await locks.mutex('one').acquire();
    const waiting = later(locks.mutex('one').acquire({ waitMs: 60_000 }));
    await eventually('waits', async () => (await locks.inspect('one')).waiters.length === 1);
    expect(await holdfast(['evict', 'one', hold.id, '--yes'], env)).toEqual({
      code: 0,
      stdout: `Took "one" away from claim ${hold.id}\n`,
      stderr: '',
    });
    const next = await waiting;
    expect(await holdfast(['evict', 'one', hold.id, '--yes'], env)).toEqual({
      code: 1,
      stdout: `Claim ${hold.id} was gone already\n`,
      stderr: '',
    });
    const gone = await holdfast(['evict', 'one', hold.id, '--yes', '--json'], env);
    expect({ code: gone.code, ...JSON.parse(gone.stdout) }).toEqual({
      code: 1,
      name: 'one',
      id: hold.id,
      evicted: false,
    });
    expect(await holdersOf(locks, 'one')).toEqual([next.id]);
  });

  it.concurrent('evicts every holder with --all, and leaves the waiters in the queue', async () => {
    const locks = locksOf('web-2');
    const semaphore = locks.semaphore('all', { permits: 2 });
    const holds = [await semaphore.acquire(), await semaphore.acquire()];
    const waiting = later(semaphore.acquire({ waitMs: 60_000 }));
    await eventually('waits', async () => (await locks.inspect('all')).waiters.length === 1);
    const { code, stdout } = await holdfast(['evict', 'all', '--all', '--yes', '--json'], env);
    const claims = holds.map(({ id, fence }) => ({
      id,
      owner: 'web-2',
      fence: fence.toString(),
      evicted: true,
    }));
    expect({ code, ...JSON.parse(stdout) }).toEqual({ code: 0, name: 'all', claims });
    const next = await waiting;
    expect(await holdersOf(locks, 'all')).toEqual([next.id]);
    expect(await holdfast(['evict', 'all', '--all', '--yes'], env)).toMatchObject({
      code: 0,
      stdout: `Took "all" away from claim ${next.id}\n`,
    });
    expect(await holdfast(['evict', 'all', '--all', '--yes'], env)).toEqual({
      code: 1,
      stdout: '"all" is not held\n',
      stderr: '',
    });
    const none = await holdfast(['evict', 'all', '--all', '--yes', '--json'], env);
    expect({ code: none.code, ...JSON.parse(none.stdout) }).toEqual({ code: 1, name: 'all', claims: [] });
  });

  it.concurrent('evicts of the use that --use names', async () => {
    const locks = locksOf('web-3');
    const mutex = await locks.mutex('both').acquire();
    const run = later(
      locks.once('both', (hold) => new Promise((_, fail) => (hold.signal.onabort = fail)), { ttlMs: 5_000 }),
    );
    await eventually('runs', async () => (await locks.inspect('both', { use: 'once' })).holders.length === 1);
    expect(await holdfast(['evict', 'both', '--all', '--yes', '--use', 'once'], env)).toMatchObject({
      code: 0,
    });
    await expect(run).rejects.toBeDefined();
    expect(await holdersOf(locks, 'both')).toEqual([mutex.id]);
  });
});

describe.concurrent('evict on a terminal', () => {
  it.concurrent('shows the claim, its owner and its fence, and evicts it after a yes only', async () => {
    const locks = locksOf('web-4');
    const hold = await locks.mutex('asked').acquire({ metadata: { job: 'v2' } });
    await using terminal = await startShell(env, { columns: 100 });
    for (const answer of ['', 'yikes']) {
      await terminal.enterAnew(`holdfast evict asked '${hold.id}'`);
      const screen = await terminal.shows('[y/N]');
      expect(screen).toMatch(/held {2}web-4 for .*, ends in .* unless renewed/);
      expect(screen).toContain(`claim ${hold.id}`);
      expect(screen).toContain(`fence ${hold.fence}`);
      expect(screen).toContain('{"job":"v2"}');
      expect(screen).toContain('Take "asked" away from this claim? [y/N]');
      await terminal.enter(answer);
      await terminal.shows(/Nothing was evicted\nexit 1 >/);
      expect(await holdersOf(locks, 'asked')).toEqual([hold.id]);
    }
    await terminal.enterAnew(`holdfast evict asked '${hold.id}'`);
    await terminal.shows('[y/N]');
    await terminal.press('C-c');
    await terminal.shows('exit 130 >');
    await terminal.enterAnew(`holdfast evict asked '${hold.id}'`);
    await terminal.shows('[y/N]');
    await terminal.enter('y');
    await terminal.shows(new RegExp(`Took "asked" away from claim ${hold.id}\\nexit 0 >`));
    expect(await holdersOf(locks, 'asked')).toEqual([]);
    await terminal.enterAnew(`holdfast evict asked '${hold.id}'`);
    await terminal.shows(/was gone already\nexit 1 >/);
  });

  it.concurrent('with --all evicts the claims that were shown, and no newer one', async () => {
    const locks = locksOf('web-5');
    const semaphore = locks.semaphore('shown', { permits: 3 });
    const shown = [await semaphore.acquire(), await semaphore.acquire()];
    await using terminal = await startShell(env, { columns: 100 });
    await terminal.enterAnew('holdfast evict shown --all --json | cat');
    const screen = await terminal.shows('these 2 claims? [y/N]');
    for (const { id, fence } of shown) {
      expect(screen).toContain(`claim ${id}`);
      expect(screen).toContain(`fence ${fence}`);
    }
    const newer = await semaphore.acquire();
    await terminal.enter('yes');
    await terminal.shows(/"evicted": true[\s\S]*"evicted": true[\s\S]*exit 0 >/);
    expect(await holdersOf(locks, 'shown')).toEqual([newer.id]);
  });
});
