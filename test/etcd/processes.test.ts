import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import { createLocks, type Locks } from '../../src/index.ts';
import { etcdStore } from '../../src/stores/etcd/index.ts';
import { closeAndExit, EXITED_AT_ONCE } from '../support/process/close-and-exit.ts';
import { compiled } from '../support/process/compiled.ts';
import { eventually, later, shortest } from '../support/waiting/eventually.ts';
import { startOneMember } from './one-member.ts';

const HOLDER = fileURLToPath(new URL('./holder.ts', import.meta.url));
// Nearly all of the time is spent waiting.
vi.setConfig({ maxConcurrency: 8 });
const { cluster, atTheEnd } = await startOneMember();

function startProcess(name: string, what: 'stay' | 'leave', ttlMs = 2_000) {
  const url = `etcd://${cluster.addresses.join(',')}`;
  const child = spawn(
    process.execPath,
    ['--unhandled-rejections=strict', compiled(HOLDER), url, name, what, String(ttlMs)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  atTheEnd(() => void child.kill('SIGKILL'));
  return child;
}

/** Starts a process that takes the lock, and waits until it has it. */
async function startHolder(
  name: string,
  what: 'stay' | 'leave',
): Promise<{ child: ChildProcess; fence: bigint }> {
  const child = startProcess(name, what);
  const [data] = (await once(child.stdout, 'data')) as [Buffer];
  return { child, fence: BigInt(data.toString().trim().split(' ')[1] ?? '0') };
}

function open(): Locks {
  const locks = createLocks(etcdStore(cluster.client()), { waitMs: 20_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

describe.concurrent('a process that holds a lock of etcd', () => {
  it('row 6: is killed, and the next waiter holds within the granted TTL and a second', async () => {
    const { child, fence } = await startHolder('killed', 'stay');
    const waiting = later(open().mutex('killed').acquire());
    child.kill('SIGKILL');
    const killedAt = performance.now();
    const hold = await waiting;
    // etcd grants three seconds for two, and checks twice a second for leases that have ended. The
    // rest is for a busy machine.
    expect(performance.now() - killedAt).toBeLessThan(3_000 + 4_500);
    expect(hold.fence).toBeGreaterThan(fence);
  });

  it('row 1: is paused for longer than the TTL, and another process holds before it resumes', async () => {
    const { child, fence } = await startHolder('stopped', 'stay');
    child.kill('SIGSTOP');
    const hold = await open().mutex('stopped').acquire();
    child.kill('SIGCONT');
    expect(hold.fence).toBeGreaterThan(fence);
    await new Promise((resolve) => void setTimeout(resolve, 1_000));
    hold.assertHeld();
    expect((await open().inspect('stopped')).holders).toHaveLength(1);
  });

  it('row 7: is not kept alive by its hold', async () => {
    const { child } = await startHolder('left', 'leave');
    const [code] = (await once(child, 'exit')) as [number | null];
    expect(code).toBe(0);
    await (await open().mutex('left').acquire()).release();
  });

  it('closes the store, continues, and exits by itself', async () => {
    expect(await closeAndExit(`etcd://${cluster.addresses.join(',')}`)).toBe(EXITED_AT_ONCE);
  });
});

let fronts = 0;
/**
 * For how many milliseconds the first waiter, once its process gets this signal, delays the next.
 */
async function delayedBy(signal: 'SIGKILL' | 'SIGSTOP', ttlMs: number): Promise<number> {
  const name = `front-${fronts++}`;
  const [holder, behind] = [open(), open()];
  const waiters = async (): Promise<number> => (await holder.inspect(name)).waiters.length;
  const hold = await holder.mutex(name).acquire();
  const child = startProcess(name, 'stay', ttlMs);
  await eventually('the process waits', async () => (await waiters()) === 1);
  const waiting = later(behind.mutex(name).acquire({ waitMs: 60_000 }));
  await eventually('both wait', async () => (await waiters()) === 2);
  // By then every waiter has extended its lease at least once.
  await sleep(4_000);
  child.kill(signal);
  await hold.release();
  const releasedAt = performance.now();
  await (await waiting).release();
  return performance.now() - releasedAt;
}

describe.concurrent('a process that waits at the front of the queue', () => {
  it('is killed, and delays the next by its TTL, rounded up to seconds', { timeout: 120_000 }, async () => {
    // etcd grants three seconds for two, and checks twice a second for leases that have ended.
    expect(await shortest(4_000, () => delayedBy('SIGKILL', 2_000))).toBeLessThan(4_000);
  });

  for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
    it(`gets a ${signal}, and delays the next by less than 6 s, however long its TTL`, {
      timeout: 120_000,
    }, async () => {
      expect(await shortest(6_000, () => delayedBy(signal, 120_000))).toBeLessThan(6_000);
    });
  }
});
