import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { createLocks, type Locks, openLocks } from '../../src/index.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { exchange } from '../../src/torture/servers/ports.ts';
import { cleanups } from '../etcd/cleanup.ts';
import { closeAndExit, EXITED_AT_ONCE } from '../support/process/close-and-exit.ts';
import { type Ensemble, startEnsemble } from '../support/servers/zookeeper.ts';
import { eventually, later } from '../support/waiting/eventually.ts';

const HOLDER = fileURLToPath(new URL('./holder.ts', import.meta.url));
const SESSION_MS = 2_000;
// Nearly all of the time is spent waiting.
vi.setConfig({ maxConcurrency: 4 });
const atTheEnd = cleanups();
let ensemble: Ensemble;
beforeAll(async () => {
  ensemble = await startEnsemble({ members: 1 });
  atTheEnd(() => ensemble.stop());
});

interface Taker {
  readonly child: ChildProcess;
  readonly said: string[];
}

/** Starts a process that takes the lock. */
function startTaker(name: string, what: 'stay' | 'leave'): Taker {
  const url = `${ensemble.url}?sessionMs=${SESSION_MS}`;
  const args = ['--import', 'tsx', '--unhandled-rejections=strict', HOLDER, url, name, what];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  atTheEnd(() => void child.kill('SIGKILL'));
  const said: string[] = [];
  child.stdout.on('data', (data: Buffer) => said.push(...data.toString().trim().split('\n')));
  return { child, said };
}

/** The same, and waits until it holds the lock. */
async function startHolder(name: string, what: 'stay' | 'leave'): Promise<Taker & { fence: bigint }> {
  const { child, said } = startTaker(name, what);
  await eventually('the process holds the lock', () => said.length > 0);
  return { child, fence: BigInt(said[0]?.split(' ')[1] ?? '0'), said };
}

function open(): Locks {
  const locks = createLocks(zookeeperStore(ensemble.client({ sessionMs: 10_000 })), { waitMs: 20_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

describe.concurrent('a process that holds a lock of ZooKeeper', () => {
  it('row 6: is killed, and the next waiter holds within a second after its session ends', async () => {
    const { child, fence } = await startHolder('killed', 'stay');
    const waiting = later(open().mutex('killed').acquire());
    await sleep(300);
    child.kill('SIGKILL');
    const killedAt = performance.now();
    const hold = await waiting;
    // The rest is for a busy machine.
    expect(performance.now() - killedAt).toBeLessThan(SESSION_MS + 4_500);
    expect(hold.fence).toBeGreaterThan(fence);
  });

  it('row 1: is paused for longer than its session: another holds before it resumes', async () => {
    const { child, fence, said } = await startHolder('stopped', 'stay');
    child.kill('SIGSTOP');
    const hold = await open().mutex('stopped').acquire();
    child.kill('SIGCONT');
    expect(hold.fence).toBeGreaterThan(fence);
    await eventually('the process reports the loss', () => said.length > 1);
    expect(said[1]).toBe('lost session');
    hold.assertHeld();
    expect((await open().inspect('stopped')).holders).toHaveLength(1);
  });

  it('waits and is paused: waiters behind it continue when its session ends', async () => {
    const [first, third] = [open(), open()];
    const hold = await first.mutex('waiter-stopped').acquire();
    const queued = (count: number): Promise<void> =>
      eventually(`${count} are queued`, async () => {
        const { waiters } = await third.inspect('waiter-stopped');
        return waiters.length === count;
      });
    const { child, said } = startTaker('waiter-stopped', 'stay');
    await queued(1);
    child.kill('SIGSTOP');
    const waiting = later(third.mutex('waiter-stopped').acquire());
    await queued(2);
    await hold.release();
    const releasedAt = performance.now();
    await first.close();
    const next = await waiting;
    // The rest is for a busy machine.
    expect(performance.now() - releasedAt).toBeLessThan(SESSION_MS + 4_500);
    child.kill('SIGCONT');
    await sleep(500);
    next.assertHeld();
    expect(said).toEqual([]);
    await next.release();
    await eventually('the resumed process waits again, and holds', () => said.length > 0);
  });

  it('row 7: is not kept alive by its hold', async () => {
    const { child } = await startHolder('left', 'leave');
    const [code] = (await once(child, 'exit')) as [number | null];
    expect(code).toBe(0);
    await (await open().mutex('left').acquire()).release();
  });

  it('leaves no session behind when it closes the store while the store connects', async () => {
    const port = ensemble.members[0]?.port ?? 0;
    for (let turns = 0; turns < 6; turns += 1) {
      const locks = await openLocks(`${ensemble.url}/turn-${turns}?sessionMs=4000`);
      const seen = locks.inspect('x').catch(() => null);
      for (let turn = 0; turn < turns; turn += 1) await null;
      await locks.close();
      await seen;
    }
    // A session that began after the close would never end.
    await sleep(500);
    await eventually(
      'no session is left',
      async () => !(await exchange(port, 'cons\n', 5_000)).includes(',to=4000,'),
    );
  });

  it('closes the store, continues, and exits by itself', async () => {
    expect(await closeAndExit(ensemble.url)).toBe(EXITED_AT_ONCE);
  });
});
