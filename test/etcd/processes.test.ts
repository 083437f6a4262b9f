import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { createLocks, type Locks } from '../../src/index.ts';
import { etcdStore } from '../../src/stores/etcd/index.ts';
import { later } from '../support/patience.ts';
import { LEFT, leave } from '../support/process/leave.ts';
import { type EtcdCluster, startEtcdCluster } from '../support/servers/etcd.ts';
import { cleanups } from './cleanup.ts';

const HOLDER = fileURLToPath(new URL('./holder.ts', import.meta.url));
// Most of it is waiting.
vi.setConfig({ maxConcurrency: 4 });
const atTheEnd = cleanups();
let cluster: EtcdCluster;
beforeAll(async () => {
  cluster = await startEtcdCluster({ members: 1 });
  atTheEnd(() => cluster.stop());
});

/** Starts a process that takes the lock, and waits until it has it. */
async function startHolder(
  name: string,
  what: 'stay' | 'leave',
): Promise<{ child: ChildProcess; fence: bigint }> {
  const url = `etcd://${cluster.addresses.join(',')}`;
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', '--unhandled-rejections=strict', HOLDER, url, name, what],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  atTheEnd(() => void child.kill('SIGKILL'));
  const [data] = (await once(child.stdout, 'data')) as [Buffer];
  return { child, fence: BigInt(data.toString().trim().split(' ')[1] ?? '0') };
}

function open(): Locks {
  const locks = createLocks(etcdStore(cluster.client()), { waitMs: 20_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

describe.concurrent('a process that holds a lock of etcd', () => {
  it('row 6: is killed, and the next in line is in within the granted TTL and a second', async () => {
    const { child, fence } = await startHolder('killed', 'stay');
    const waiting = later(open().mutex('killed').acquire());
    child.kill('SIGKILL');
    const killedAt = performance.now();
    const hold = await waiting;
    // Three seconds are granted for two; etcd looks for leases that have ended twice a second. With room for a busy machine.
    expect(performance.now() - killedAt).toBeLessThan(3_000 + 4_500);
    expect(hold.fence).toBeGreaterThan(fence);
  });

  it('row 1: sleeps longer than the TTL, and another is in before it wakes', async () => {
    const { child, fence } = await startHolder('stopped', 'stay');
    child.kill('SIGSTOP');
    const hold = await open().mutex('stopped').acquire();
    child.kill('SIGCONT');
    expect(hold.fence).toBeGreaterThan(fence);
    await new Promise((resolve) => void setTimeout(resolve, 1_000));
    hold.assertHeld();
    expect((await open().inspect('stopped')).holders).toHaveLength(1);
  });

  it('row 7: is not kept alive by it', async () => {
    const { child } = await startHolder('left', 'leave');
    const [code] = (await once(child, 'exit')) as [number | null];
    expect(code).toBe(0);
    await (await open().mutex('left').acquire()).release();
  });

  it('closes the store, goes on, and ends by itself', async () => {
    expect(await leave(`etcd://${cluster.addresses.join(',')}`)).toBe(LEFT);
  });
});
