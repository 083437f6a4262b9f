import { getEventListeners } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Mutex } from 'async-mutex';
import { createLocks, type Locks, memoryStore } from 'holdfast';
import { bundle } from '../../test/support/package/bundle.ts';

/**
 * The cost of the core, on the memory store: ratios within one run, against async-mutex and against
 * itself.
 */

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

/** Nanoseconds for one round of `work`, which runs `rounds` rounds. */
async function timeOf(rounds: number, work: (rounds: number) => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work(rounds);
  return ((performance.now() - startedAt) * 1e6) / rounds;
}

function report(what: string, figure: string, target: string, met: boolean): void {
  console.log(`${met ? 'ok  ' : 'MISS'}  ${what.padEnd(64)} ${figure.padStart(28)}   target ${target}`);
  if (!met) process.exitCode = 1;
}

async function uncontended(): Promise<void> {
  const theirs = new Mutex();
  const ours = createLocks(memoryStore()).mutex('bench');
  const runTheirs = async (rounds: number): Promise<void> => {
    for (let n = 0; n < rounds; n += 1) (await theirs.acquire())();
  };
  const runOurs = async (rounds: number): Promise<void> => {
    for (let n = 0; n < rounds; n += 1) await (await ours.acquire()).release();
  };
  await runTheirs(30_000);
  await runOurs(30_000);
  const ratios: number[] = [];
  const times: [number, number][] = [];
  for (let round = 0; round < 9; round += 1) {
    const [a, b] = [await timeOf(50_000, runTheirs), await timeOf(50_000, runOurs)];
    times.push([a, b]);
    ratios.push(b / a);
  }
  const ns = median(times.map(([, b]) => b)).toFixed(0);
  const figure = `${ns} ns, ${median(ratios).toFixed(2)} × async-mutex`;
  report('uncontended acquire + release', figure, '≤ 4 ×', median(ratios) <= 4);
}

const HANDOFFS = 10_000;

/**
 * The time of one handoff, from the release of one waiter's hold to that of the next, while at
 * least `waiters` wait behind it: twice as many are queued, and only the first half of them is timed.
 */
async function handoffMs(waiters: number): Promise<number> {
  const locks = createLocks(memoryStore({ queueMax: 2 * waiters }), { waitMs: 86_400_000 });
  const lock = locks.mutex('bench');
  let spentMs = 0;
  for (let left = HANDOFFS; left > 0; left -= waiters) {
    const blocker = await lock.acquire();
    let served = 0;
    const line = Array.from({ length: 2 * waiters }, async () => {
      const hold = await lock.acquire();
      served += 1;
      if (served === waiters) spentMs += performance.now() - startedAt;
      await hold.release();
    });
    while ((await locks.inspect('bench')).waiters.length < 2 * waiters)
      await new Promise((resolve) => void setImmediate(resolve));
    // Making the queue is not a handoff: its garbage is not counted.
    globalThis.gc?.();
    const startedAt = performance.now();
    await blocker.release();
    await Promise.all(line);
  }
  await locks.close();
  return (spentMs * 1e6) / HANDOFFS;
}

async function handoffCheck(): Promise<void> {
  await handoffMs(10);
  await handoffMs(10_000);
  const ratios: number[] = [];
  const times: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    const [few, many] = [await handoffMs(10), await handoffMs(10_000)];
    times.push(many);
    ratios.push(many / few);
  }
  const figure = `${median(times).toFixed(0)} ns, ${median(ratios).toFixed(2)} × with 10`;
  report('one handoff with 10,000 waiters', figure, '≤ 1.5 ×', median(ratios) <= 1.5);
}

interface Resources {
  readonly heapKb: number;
  readonly timers: number;
}

async function resourcesNow(): Promise<Resources> {
  // Time limits of commands that are through are forgotten together when they would have run out,
  // within five seconds.
  await new Promise((resolve) => void setTimeout(resolve, 5_500));
  for (let turn = 0; turn < 5; turn += 1) {
    await new Promise((resolve) => void setTimeout(resolve, 60));
    globalThis.gc?.();
  }
  const timers = process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  return { heapKb: process.memoryUsage().heapUsed / 1024, timers };
}

async function growth(
  what: string,
  locks: Locks,
  rounds: number,
  loop: (locks: Locks, rounds: number) => Promise<void>,
): Promise<void> {
  // As many rounds again: until then, compiled code and grown tables add to the heap.
  await loop(locks, rounds);
  const before = await resourcesNow();
  await loop(locks, rounds);
  const after = await resourcesNow();
  const kb = after.heapKb - before.heapKb;
  const timers = after.timers - before.timers;
  report(what, `${kb.toFixed(0)} kB and ${timers} timers`, '≤ 200 kB, ≤ 2 timers', kb <= 200 && timers <= 2);
}

async function leaks(): Promise<void> {
  const locks = createLocks(memoryStore());
  await growth('100,000 × acquire and release: growth', locks, 100_000, async (all, rounds) => {
    for (let n = 0; n < rounds; n += 1) await (await all.mutex('loop').acquire()).release();
  });
  const blocker = await locks.mutex('busy').acquire({ ttlMs: 86_400_000 });
  const shared = new AbortController();
  await growth('10,000 × acquire and abort: growth', locks, 10_000, async (all, rounds) => {
    for (let n = 0; n < rounds; n += 1) {
      const own = new AbortController();
      const waiting = all.mutex('busy').acquire({ signal: own.signal });
      await null;
      own.abort('enough');
      await waiting.catch(() => {});
    }
    const crowd = Array.from({ length: 100 }, () =>
      all
        .mutex('busy')
        .acquire({ waitMs: 5, signal: shared.signal })
        .catch(() => {}),
    );
    await Promise.all(crowd);
  });
  const { waiters } = await locks.inspect('busy');
  const listeners = getEventListeners(shared.signal, 'abort').length;
  report(
    '… places and listeners left behind',
    `${waiters.length} and ${listeners}`,
    '0 and 0',
    waiters.length + listeners === 0,
  );
  await blocker.release();
  await locks.close();
}

/** What a program that imports `createLocks` loads. */
async function size(): Promise<void> {
  const root = fileURLToPath(new URL('../../', import.meta.url));
  const { bytes } = await bundle(root, "export { createLocks } from './dist/esm/index.js';");
  report('size of the core, minified and gzipped', `${bytes} bytes`, '≤ 20,000', bytes <= 20_000);
}

await size();
await uncontended();
await handoffCheck();
await leaks();
