import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import type { Locks } from '../../../src/index.ts';
import { startStage } from '../../redis/support/stage.ts';
import { startWorker, stopWorkers, type Worker } from '../../redis/support/workers.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';

const stage = await useStage(startStage());
// Not after each test, since the tests run concurrently.
afterAll(async () => {
  stopWorkers();
});

/**
 * A paused waiter may delay the claims behind it by six seconds. The rest is for a busy machine: a claim
 * keeps its position for half a minute without asking.
 */
const DELAY_MS = 9_000;

/** A holder and waiters in other processes, and a waiter here behind them. */
async function setUp(name: string, ttlMs: number, waiters: number) {
  const locks = await stage.locks('ioredis', stage.server.url, { waitMs: 200_000 });
  const waiting = (count: number): Promise<void> =>
    eventually(`${count} wait`, async () => (await locks.inspect(name)).waiters.length === count);
  const holder = startWorker(stage.server.url, 'hold', name, `${ttlMs}`);
  await holder.said('held');
  const ahead: Worker[] = [];
  for (let n = 1; n <= waiters; n += 1) {
    ahead.push(startWorker(stage.server.url, 'hold', name, `${ttlMs}`));
    await waiting(n);
  }
  const pending = later(locks.mutex(name).acquire({ ttlMs }));
  await waiting(waiters + 1);
  return { locks, holder, ahead, pending };
}

/** The holder releases, and its process ends by itself or is killed. */
async function releaseAndExit(holder: Worker, how: 'exits' | 'is killed'): Promise<void> {
  holder.tell('release');
  await holder.said('released');
  if (how === 'is killed') holder.kill('SIGKILL');
  await holder.exited;
}

async function elapsedMs(work: Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work;
  return performance.now() - startedMs;
}

async function noneLeft(locks: Locks, name: string): Promise<void> {
  await eventually('nothing is left', async () => {
    const { holders, waiters } = await locks.inspect(name);
    return holders.length + waiters.length === 0;
  });
}

describe.concurrent.each([
  ['long before', 1_500],
  ['just before', 0],
] as const)('a waiter that asked %s it was paused', (_when, askedAgoMs) => {
  it.each([
    [30_000, 'exits'],
    [120_000, 'is killed'],
  ] as const)(
    'delays the queue by seconds, with a lease of %s ms, when the releasing process %s',
    async (ttlMs, how) => {
      const name = `stopped-${askedAgoMs}-${ttlMs}`;
      const { locks, holder, ahead, pending } = await setUp(name, ttlMs, 1);
      await sleep(askedAgoMs);
      for (const worker of ahead) worker.kill('SIGSTOP');
      const granted = elapsedMs(pending);
      await releaseAndExit(holder, how);
      expect(await granted).toBeLessThan(DELAY_MS);
      // The paused waiter resumes, finds that its turn is over, and waits again.
      const [stopped] = ahead;
      stopped?.kill('SIGCONT');
      const hold = await pending;
      await sleep(200);
      hold.assertHeld();
      expect(await hold.release()).toBe(true);
      const { fence } = (await stopped?.said('held')) ?? {};
      expect(BigInt(String(fence))).toBeGreaterThan(hold.fence);
      stopped?.tell('release');
      await stopped?.exited;
      await noneLeft(locks, name);
    },
  );
});

it.concurrent.each([2, 4])('%d paused waiters in a row delay the queue that many times', async (count) => {
  const { holder, ahead, pending } = await setUp(`stopped-${count}-times`, 120_000, count);
  // Longer than the time after which every new waiter asks once by itself.
  await sleep(6_000);
  for (const worker of ahead) worker.kill('SIGSTOP');
  const granted = elapsedMs(pending);
  await releaseAndExit(holder, 'is killed');
  expect(await granted).toBeLessThan(count * DELAY_MS);
  await (await pending).release();
});
