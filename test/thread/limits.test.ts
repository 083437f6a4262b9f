import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Worker } from 'node:worker_threads';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { HoldLostError, Locks, LocksOptions } from '../../src/index.ts';
import { openLocks } from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { openThreadLocks } from '../../src/thread/open.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { outputOf } from '../support/process/close-and-exit.ts';
import { eventually, renewals } from '../support/waiting/eventually.ts';

const folder = temporaryFolder();
const url = `sqlite:${folder.file('locks.db')}`;
const TTL_MS = 1_500;
const LEAVER = fileURLToPath(new URL('./support/leaver.ts', import.meta.url));

const opened: Locks[] = [];
const threads: Worker[] = [];
const onWorker = (worker: Worker): void => void threads.push(worker);
beforeEach(() => void process.on('worker', onWorker));
afterEach(async () => {
  process.off('worker', onWorker);
  await Promise.all(opened.splice(0).map((locks) => locks.close({ drainMs: 0 })));
  threads.splice(0);
});
afterAll(() => folder.remove());

async function open(options: LocksOptions = {}, withoutTurnMs?: number, storeUrl = url): Promise<Locks> {
  const locks = await openThreadLocks(storeUrl, { ttlMs: TTL_MS, ...options }, withoutTurnMs);
  opened.push(locks);
  return locks;
}

/** Blocks the event loop, as a long computation does. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

function lossOf(check: () => void): HoldLostError | null {
  try {
    check();
    return null;
  } catch (error) {
    return error as HoldLostError;
  }
}

const codeOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => 'no error',
    (error: { code: string }) => error.code,
  );

describe('a hold that a thread renews', () => {
  it('ends at maxHoldMs, also while the event loop is blocked', async () => {
    const locks = await open();
    const other = await openLocks(url, { waitMs: 20_000 });
    opened.push(other);
    const hold = await locks.mutex('capped').acquire({ maxHoldMs: 3 * TTL_MS });
    block(TTL_MS + 500);
    expect(hold.remainingMs).toBeGreaterThan(0);
    block(2 * TTL_MS);
    expect(lossOf(() => hold.assertHeld())?.how).toBe('expired');
    await other.mutex('capped').acquire();
  });

  it('is renewed no more once the event loop has had no turn for too long', async () => {
    const withoutTurnMs = 2 * TTL_MS;
    const locks = await open({}, withoutTurnMs);
    const failures: unknown[] = [];
    locks.on('renewFailed', ({ error }) => failures.push(error));
    const hold = await locks.mutex('hung').acquire();
    block(TTL_MS + 500);
    expect(lossOf(() => hold.assertHeld())).toBeNull();
    await sleep(100);
    block(withoutTurnMs + 2 * TTL_MS);
    expect(lossOf(() => hold.assertHeld())?.how).toBe('expired');
    expect(hold.signal.aborted).toBe(true);
    expect(failures, 'the hold is lost, so its events are over').toEqual([]);
  });

  it('is extended, and found evicted, after a long time without a renewal', async () => {
    const withoutTurnMs = TTL_MS;
    const locks = await open({ renew: false, ttlMs: 60_000 }, withoutTurnMs);
    const hold = await locks.mutex('unrenewed').acquire();
    const evicted = await locks.mutex('evicted').acquire();
    await sleep(2 * withoutTurnMs);
    await hold.extend(50_000);
    await sleep(2 * withoutTurnMs);
    await locks.evict('evicted', evicted);
    await eventually('the loss', () => evicted.signal.aborted);
    expect((evicted.signal.reason as HoldLostError).how).toBe('taken');
  });

  it('reports a blocked event loop, its renewals and an eviction', async () => {
    const locks = await open();
    const seen: string[] = [];
    for (const event of ['stalled', 'renewed', 'lost'] as const) locks.on(event, () => seen.push(event));
    const hold = await locks.mutex('watched').acquire();
    const { signal } = hold;
    await renewals(locks, 2);
    block(TTL_MS);
    await eventually('the stall', () => seen.includes('stalled'));
    await locks.evict('watched', hold);
    await eventually('the loss', () => seen.includes('lost'));
    expect((signal.reason as HoldLostError).how).toBe('taken');
  });

  it('can be extended, shortened and released, and its slot is used again', async () => {
    const locks = await open();
    for (let round = 0; round < 2; round += 1) {
      const hold = await locks.mutex('extended').acquire();
      await hold.extend(60_000);
      expect(hold.remainingMs).toBeGreaterThan(50_000);
      await hold.extend(TTL_MS);
      expect(hold.remainingMs).toBeLessThanOrEqual(TTL_MS);
      block(TTL_MS + 500);
      hold.assertHeld();
      expect(await hold.release()).toBe(true);
      expect(lossOf(() => hold.assertHeld())?.how).toBe('released');
    }
  });

  it('with renew: false runs out', async () => {
    const locks = await open();
    const hold = await locks.mutex('once only').acquire({ renew: false });
    block(TTL_MS / 5);
    hold.assertHeld();
    block(TTL_MS);
    expect(lossOf(() => hold.assertHeld())?.how).toBe('expired');
  });

  it('of a finished once leaves what is remembered for as long as it was asked to', async () => {
    const locks = await open();
    const run = async (): Promise<string> => {
      block(2 * TTL_MS);
      await sleep(TTL_MS);
      return 'done';
    };
    expect(await locks.once('job', run)).toMatchObject({ ran: true, value: 'done' });
    await sleep(2 * TTL_MS);
    expect(await locks.once('job', run)).toMatchObject({ ran: false });
  });
});

describe('a renewal thread', () => {
  it.each([
    ['a file', url],
    ['a database in memory, which lives in the thread', 'sqlite::memory:'],
  ])(
    'that ends takes no hold with it before its deadline, and every call then fails: %s',
    async (_, storeUrl) => {
      const locks = await open({}, undefined, storeUrl);
      const hold = await locks.mutex('orphan').acquire({ ttlMs: 2 * TTL_MS });
      const { signal } = hold;
      await threads[0]?.terminate();
      hold.assertHeld();
      expect(await codeOf(hold.extend())).toBe('STORE');
      expect(await codeOf(locks.mutex('other').tryAcquire())).toBe('STORE');
      await eventually('the loss', () => signal.aborted);
      expect((signal.reason as HoldLostError).how).toBe('expired');
      expect(await hold.release()).toBe(false);
    },
  );

  it('that throws is as one that ends', async () => {
    const locks = await open();
    threads[0]?.postMessage({ kind: 'page', buffer: null });
    await eventually('the failure', async () => (await codeOf(locks.mutex('a').tryAcquire())) === 'STORE');
  });

  it('is ended by close', async () => {
    const locks = await open();
    const ended = new Promise((resolve) => threads[0]?.once('exit', resolve));
    await locks.close();
    await ended;
  });

  it.each([
    ['a file', url, 'holds for true'],
    ['a database in memory, which lives in the thread', 'sqlite::memory:', 'holds for true'],
    ['a bad URL', 'sqlite:', 'rejected INVALID_ARGUMENT'],
    ['a server that is not there', 'etcd://127.0.0.1:1', 'rejected STORE'],
  ])('does not keep the process alive longer than its calls: %s', async (_, storeUrl, output) => {
    expect(await outputOf(LEAVER, [storeUrl])).toBe(output);
  });

  it('is not started for a store in the memory of this process, nor with a virtual clock', async () => {
    const clock = virtualClock();
    expect(await codeOf(openLocks('memory:', { renewal: 'thread' }))).toBe('UNSUPPORTED');
    expect(await codeOf(openLocks(url, { renewal: 'thread', clock }))).toBe('INVALID_ARGUMENT');
    expect(await codeOf(openLocks('sqlite:', { renewal: 'thread' }))).toBe('INVALID_ARGUMENT');
    expect(await codeOf(openLocks('redis://127.0.0.1:1', { renewal: 'thread', commandMs: 300 }))).toBe(
      'STORE',
    );
    expect(threads.length, 'a bad URL is found in the thread').toBe(2);
    await eventually('the ends of the threads', () => threads.every((thread) => thread.threadId === -1));
  });
});
