import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { type Clock, systemClock } from '../../src/clock.ts';
import { createLocks, type Locks } from '../../src/index.ts';
import { etcdStore } from '../../src/stores/etcd/index.ts';
import { request } from '../../src/testing/store-case.ts';
import { itEndsWithItsProcess, type SessionSubject, startTaker } from '../support/process/session-holders.ts';
import { eventually, later, shortest } from '../support/waiting/eventually.ts';
import { startOneMember } from './support/one-member.ts';

// Nearly all of the time is spent waiting.
vi.setConfig({ maxConcurrency: 8 });
const { cluster, atTheEnd } = await startOneMember();

function open(): Locks {
  const locks = createLocks(etcdStore(cluster.client()), { waitMs: 20_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

const subject: SessionSubject = {
  url: `etcd://${cluster.addresses.join(',')}`,
  open,
  atTheEnd,
  // etcd checks twice a second for leases that have ended. The rest is for a busy machine: a waiter
  // that nothing wakes asks again after ten seconds.
  freedWithinMs: 2_000 + 5_500,
  pausedLoss: 'expired',
  titles: {
    killed: 'row 6: is killed, and the next waiter holds within the granted TTL and a second',
    paused: 'row 1: is paused for longer than the TTL, and another process holds before it resumes',
    left: 'row 7: is not kept alive by its hold',
  },
};

describe.concurrent('a process that holds a lock of etcd', () => itEndsWithItsProcess(subject));

it('a waiter that was suspended for longer than its claim is kept is woken', async () => {
  let sleptMs = 0;
  const clock: Clock = {
    monotonicMs: () => systemClock.monotonicMs() + sleptMs,
    wallMs: () => systemClock.wallMs() + sleptMs,
    startTimer: (...args) => systemClock.startTimer(...args),
    random: () => systemClock.random(),
  };
  const store = etcdStore(cluster.client(), { clock });
  atTheEnd(() => store.close());
  const hold = await open().mutex('suspended').acquire();
  const wanted = request('suspended', { wait: true });
  let isWoken = false;
  const wake = (): void => {
    isWoken = true;
  };
  const ask = () => store.claim(wanted, undefined, { wake });
  expect(await ask()).toMatchObject({ granted: false });
  sleptMs = 40_000;
  await eventually('the waiter is woken', () => isWoken);
  expect(await ask()).toMatchObject({ granted: false });
  await hold.release();
});

it('a process that holds a lock for which it had to wait is not kept alive by its hold', async () => {
  const locks = open();
  const first = await locks.mutex('waited').acquire();
  const { output, ended } = startTaker(subject, 'waited', 'leave', 60_000);
  await eventually('the process waits', async () => (await locks.inspect('waited')).waiters.length === 1);
  await first.release();
  expect(await ended).toEqual({ code: 0, signal: null });
  expect(output[0]).toMatch(/^held /);
});

let fronts = 0;
/**
 * For how many milliseconds the first waiter delays the next after its process gets this signal.
 */
async function delayedBy(signal: 'SIGKILL' | 'SIGSTOP', ttlMs: number): Promise<number> {
  const name = `front-${fronts++}`;
  const [holder, behind] = [open(), open()];
  const waiters = async (): Promise<number> => (await holder.inspect(name)).waiters.length;
  const hold = await holder.mutex(name).acquire();
  const { child } = startTaker(subject, name, 'stay', ttlMs);
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
    // etcd checks twice a second for leases that have ended.
    expect(await shortest(3_000, () => delayedBy('SIGKILL', 2_000))).toBeLessThan(3_000);
  });

  for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
    it(`gets a ${signal}, and delays the next by less than 6 s, however long its TTL`, {
      timeout: 120_000,
    }, async () => {
      expect(await shortest(6_000, () => delayedBy(signal, 120_000))).toBeLessThan(6_000);
    });
  }
});
