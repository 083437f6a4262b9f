import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { createLocks, type Locks, openLocks } from '../../src/index.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { cleanups } from '../etcd/cleanup.ts';
import { eventually, later } from '../support/patience.ts';
import { LEFT, leave } from '../support/process/leave.ts';
import { exchange } from '../support/servers/ports.ts';
import { type Ensemble, startEnsemble } from '../support/servers/zookeeper.ts';

const HOLDER = fileURLToPath(new URL('./holder.ts', import.meta.url));
const SESSION_MS = 2_000;
// Most of it is waiting.
vi.setConfig({ maxConcurrency: 4 });
const atTheEnd = cleanups();
let ensemble: Ensemble;
beforeAll(async () => {
  ensemble = await startEnsemble({ members: 1 });
  atTheEnd(() => ensemble.stop());
});

/** Starts a process that takes the lock, and waits until it has it. */
async function startHolder(
  name: string,
  what: 'stay' | 'leave',
): Promise<{ child: ChildProcess; fence: bigint; said: string[] }> {
  const url = `${ensemble.url}?sessionMs=${SESSION_MS}`;
  const args = ['--import', 'tsx', '--unhandled-rejections=strict', HOLDER, url, name, what];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  atTheEnd(() => void child.kill('SIGKILL'));
  const said: string[] = [];
  child.stdout.on('data', (data: Buffer) => said.push(...data.toString().trim().split('\n')));
  await once(child.stdout, 'data');
  return { child, fence: BigInt(said[0]?.split(' ')[1] ?? '0'), said };
}

function open(): Locks {
  const locks = createLocks(zookeeperStore(ensemble.client({ sessionMs: 5_000 })), { waitMs: 20_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

describe.concurrent('a process that holds a lock of ZooKeeper', () => {
  it('row 6: is killed, and the next in line is in when its session ends, within a second', async () => {
    const { child, fence } = await startHolder('killed', 'stay');
    const waiting = later(open().mutex('killed').acquire());
    await sleep(300);
    child.kill('SIGKILL');
    const killedAt = performance.now();
    const hold = await waiting;
    // With room for a busy machine.
    expect(performance.now() - killedAt).toBeLessThan(SESSION_MS + 4_500);
    expect(hold.fence).toBeGreaterThan(fence);
  });

  it('row 1: sleeps longer than its session, another is in before it wakes, and it knows at once', async () => {
    const { child, fence, said } = await startHolder('stopped', 'stay');
    child.kill('SIGSTOP');
    const hold = await open().mutex('stopped').acquire();
    child.kill('SIGCONT');
    expect(hold.fence).toBeGreaterThan(fence);
    await eventually('it says so', () => said.length > 1);
    expect(said[1]).toBe('lost session');
    hold.assertHeld();
    expect((await open().inspect('stopped')).holders).toHaveLength(1);
  });

  it('row 7: is not kept alive by it', async () => {
    const { child } = await startHolder('left', 'leave');
    const [code] = (await once(child, 'exit')) as [number | null];
    expect(code).toBe(0);
    await (await open().mutex('left').acquire()).release();
  });

  it('leaves no session behind when it closes the store while that connects', async () => {
    const port = ensemble.members[0]?.port ?? 0;
    for (let turns = 0; turns < 6; turns += 1) {
      const locks = await openLocks(`${ensemble.url}/turn-${turns}?sessionMs=4000`);
      const seen = locks.inspect('x').catch(() => null);
      for (let turn = 0; turn < turns; turn += 1) await null;
      await locks.close();
      await seen;
    }
    // One that began with nobody left to end it would last for ever.
    await sleep(500);
    await eventually(
      'no session is left',
      async () => !(await exchange(port, 'cons\n', 5_000)).includes(',to=4000,'),
    );
  });

  it('closes the store, goes on, and ends by itself', async () => {
    expect(await leave(ensemble.url)).toBe(LEFT);
  });
});
