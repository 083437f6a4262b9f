import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Store } from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { EXCLUSIVE, request, SHARED } from '../../src/testing/store-case.ts';
import { compiled } from '../support/process/compiled.ts';
import { AdvisoryStage } from './support/advisory-stage.ts';

let stage: AdvisoryStage;
beforeAll(async () => {
  stage = await AdvisoryStage.start();
});
afterEach(() => stage?.end());
afterAll(() => stage?.stop());

const advisoryLocks = async (): Promise<number> =>
  (
    await stage.query(
      `SELECT 1 FROM pg_locks JOIN pg_database d ON d.oid = database
        WHERE locktype = 'advisory' AND d.datname = current_database()`,
    )
  ).length;

describe('waiters of an advisory lock', () => {
  it('cost at most 20 statements a second when they are fifty, in several processes', async () => {
    const [holder, ...processes] = Array.from({ length: 6 }, () => stage.locks());
    const hold = await holder?.mutex('fifty').acquire();
    const waiting = Array.from({ length: 50 }, (_, n) => processes[n % 5]?.mutex('fifty').acquire());
    // One session each, and one more lock for those that are seen to wait.
    await expect.poll(advisoryLocks).toBe(6 + 1 + 5);
    const startedMs = performance.now();
    const calls = await stage.callsDuring(() => sleep(2_000));
    expect(calls).toBeLessThanOrEqual((20 * (performance.now() - startedMs)) / 1_000);
    await hold?.release();
    for (const each of waiting) void each?.then((next) => next.release());
    await Promise.all(waiting);
    await expect.poll(advisoryLocks).toBe(6);
  }, 30_000);

  it('are woken by a release elsewhere, the first of each process only', async () => {
    const [a, b] = [stage.store(), stage.store()];
    const held = request('wake');
    await a.claim(held);
    const waiters = [1, 2, 3].map(() => request('wake', { wait: true }));
    const woken = waiters.map(() => 0);
    for (const [n, waiter] of waiters.entries()) {
      const wake = (): void => {
        woken[n] = (woken[n] ?? 0) + 1;
      };
      expect((await b.claim(waiter, undefined, { wake })).granted).toBe(false);
    }
    expect(woken).toEqual([0, 0, 0]);
    await a.release(held);
    await expect.poll(() => woken[0]).toBeGreaterThan(0);
    await sleep(50);
    expect(woken.slice(1)).toEqual([0, 0]);
  });

  it('a queue position that is given up passes the turn on, and leaves nothing at the server', async () => {
    const [a, b] = [stage.store(), stage.store()];
    const held = request('pass');
    await a.claim(held);
    const waiters = [1, 2].map(() => request('pass', { wait: true }));
    const [first, second] = waiters as [(typeof waiters)[0], (typeof waiters)[0]];
    await b.claim(first);
    let woken = 0;
    const wake = (): void => {
      woken += 1;
    };
    await b.claim(second, undefined, { wake });
    expect(await b.release(first)).toBe(true);
    expect(woken).toBe(1);
    await a.release(held);
    await expect.poll(async () => (await b.claim(second)).granted).toBe(true);
    expect(await b.release(second)).toBe(true);
    await expect.poll(advisoryLocks).toBe(2);
  });

  it('a queue position whose claim is not asked for again is passed over in the end', async () => {
    const clock = virtualClock();
    const [a, b] = [stage.store(), stage.store({ clock })];
    const held = request('forgotten');
    await a.claim(held);
    const [forgotten, next] = [request('forgotten', { wait: true }), request('forgotten', { wait: true })];
    await b.claim(forgotten);
    await b.claim(next);
    await a.release(held);
    expect((await b.claim(next)).granted).toBe(false);
    await clock.advance(31_000);
    expect((await b.claim(next)).granted).toBe(true);
  });

  it('a process that releases and asks again at once does not starve another', async () => {
    const [a, b] = [stage.locks(), stage.locks()];
    let isOver = false;
    let rounds = 0;
    const greedy = (async () => {
      while (!isOver) {
        const hold = await a.mutex('greedy').acquire();
        rounds += 1;
        // Much longer than the gap in which the lock is free.
        await sleep(10);
        await hold.release();
      }
    })();
    await expect.poll(() => rounds).toBeGreaterThan(1);
    let passed = 0;
    for (let turn = 0; turn < 40; turn += 1) {
      const before = rounds;
      const hold = await b.mutex('greedy').acquire();
      // The other may have the next hold before our release has been answered.
      passed += rounds - before;
      await hold.release();
      // Into the middle of the other's next hold.
      await sleep(15);
    }
    isOver = true;
    await greedy;
    // Hardly ever passed over; where the one that asks first wins, once or twice each time.
    expect(passed).toBeLessThanOrEqual(20);
  }, 60_000);

  it('a release lets a waiter of another process go before one of its own process', async () => {
    const [a, b] = [stage.store(), stage.store()];
    const held = request('yield');
    await a.claim(held);
    const woken: string[] = [];
    const waits = async (store: Store, by: string): Promise<void> => {
      const waiter = { wake: () => void woken.push(by) };
      const outcome = await store.claim(request(held.name, { wait: true }), undefined, waiter);
      expect(outcome.granted).toBe(false);
    };
    await waits(a, 'own');
    await waits(b, 'other');
    await a.release(held);
    // Its session has received the notification of its own release, which comes before the answer.
    expect(woken).not.toContain('own');
    await expect.poll(() => woken).toContain('other');
    await expect.poll(() => woken).toContain('own');
  });

  it('a wake-up that comes during a release reaches the claim that asks next', async () => {
    const store = stage.store();
    const held = request('during', { mode: SHARED });
    await store.claim(held);
    const [pid] = await stage.sessionsWith(held.name);
    const other = await stage.foreign();
    await other.query('SELECT pg_advisory_lock_shared(hashtextextended($1, 0))', [held.name]);
    const wake = vi.fn();
    process.kill(Number(pid), 'SIGSTOP');
    let answers: Promise<unknown>[] = [];
    try {
      const released = store.release(held);
      await setImmediate();
      answers = [released, store.claim(request(held.name, { wait: true }), undefined, { wake })];
      await stage.query("SELECT pg_notify('holdfast_advisory', hashtextextended($1, 0)::text)", [held.name]);
    } finally {
      process.kill(Number(pid), 'SIGCONT');
    }
    expect((await Promise.all(answers))[1]).toMatchObject({ granted: false });
    expect(wake).toHaveBeenCalled();
  });

  it('readers enter together, and not before a writer of their process that came first', async () => {
    const [a, b] = [stage.store(), stage.store()];
    const [reader, writer] = [
      request('rw', { mode: SHARED }),
      request('rw', { mode: EXCLUSIVE, wait: true }),
    ];
    const later = [1, 2, 3].map(() => request('rw', { mode: SHARED, wait: true }));
    await a.claim(reader);
    await b.claim(writer);
    for (const each of later) expect((await b.claim(each)).granted).toBe(false);
    await a.release(reader);
    await expect.poll(async () => (await b.claim(writer)).granted).toBe(true);
    await b.release(writer);
    for (const each of later) await expect.poll(async () => (await b.claim(each)).granted).toBe(true);
  });

  it('the queue of one process has a bound', async () => {
    const store = stage.store({ queueMax: 2 });
    await store.claim(request('bound'));
    for (let n = 0; n < 2; n += 1) await store.claim(request('bound', { wait: true }));
    await expect(store.claim(request('bound', { wait: true }))).rejects.toMatchObject({ code: 'QUEUE_FULL' });
  });

  it('ten thousand tasks that try at once are answered by a few statements', async () => {
    const [a, b] = [stage.store(), stage.store()];
    await a.claim(request('crowd'));
    await b.claim(request('warm'));
    const calls = await stage.callsDuring(async () => {
      const outcomes = await Promise.all(Array.from({ length: 10_000 }, () => b.claim(request('crowd'))));
      expect(outcomes.some((outcome) => outcome.granted)).toBe(false);
    });
    expect(calls).toBeLessThan(10);
  });
});

describe('looking at advisory locks', () => {
  it('shows a holder in another process, with its id, fence, age and metadata', async () => {
    const [a, b] = [stage.locks({ owner: 'web-1' }), stage.locks()];
    const metadata = { job: 'é"\\', text: 'x'.repeat(3_000) };
    const hold = await a.mutex('shown').acquire({ metadata });
    const view = await b.inspect('shown');
    expect(view).toMatchObject({ kind: 'exclusive', waiters: [] });
    expect(view.holders).toMatchObject([{ id: hold.id, owner: 'web-1', fence: hold.fence, metadata }]);
    expect(view.holders[0]?.heldForMs).toBeGreaterThanOrEqual(0);
    expect(await a.inspect('shown')).toMatchObject({ holders: [{ id: hold.id, fence: hold.fence }] });
    const [row] = await stage.query<{ application_name: string }>(
      "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'web-%'",
    );
    expect(row?.application_name).toBe('web-1');
  });

  it('shows a foreign holder by its application name, and a paused process too', async () => {
    const other = await stage.foreign('billing');
    await other.query("SELECT pg_advisory_lock_shared(hashtextextended('mixed', 0))");
    const locks = stage.locks();
    const hold = await locks.readWriteLock('mixed').read.acquire();
    const { holders } = await stage.locks().inspect('mixed');
    expect(holders).toHaveLength(2);
    expect(holders).toContainEqual(
      expect.objectContaining({ owner: 'billing', fence: null, heldForMs: null, mode: { kind: 'shared' } }),
    );
    expect(holders).toContainEqual(expect.objectContaining({ id: hold.id, fence: hold.fence }));
  });

  it('the wait that runs out names the holder', async () => {
    await stage.locks({ owner: 'the-holder' }).mutex('named').acquire();
    await expect(stage.locks().mutex('named').acquire({ waitMs: 100 })).rejects.toThrow(/the-holder/);
  });

  it('lists what this process holds, and says that it cannot know the rest', async () => {
    const [a, b] = [stage.locks(), stage.locks()];
    await a.mutex('list:1').acquire();
    await a.mutex('list:2').acquire();
    const names: string[] = [];
    for await (const view of a.list('list:')) names.push(view.name);
    expect(names.sort()).toEqual(['list:1', 'list:2']);
    const listed = async (): Promise<void> => {
      for await (const _ of b.list('list:')) expect.fail('nothing of b is held');
    };
    await expect(listed()).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  });

  it('takes one lock from another process, which is notified, and leaves its other locks', async () => {
    const [a, b] = [stage.locks(), stage.locks()];
    const hold = await a.mutex('evict:1').acquire();
    const kept = await a.mutex('evict:2').acquire();
    const { signal } = hold;
    expect(await b.evict('evict:1', { id: kept.id })).toBe(false);
    expect(await b.evict('evict:1', { id: hold.id })).toBe(true);
    await expect.poll(() => signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ code: 'HOLD_LOST', how: 'taken' });
    expect(await b.mutex('evict:1').tryAcquire()).not.toBeNull();
    kept.assertHeld();
    expect(await kept.release()).toBe(true);
  });

  it('cannot take a lock from another program, and says how its session can be ended', async () => {
    const other = await stage.foreign();
    await other.query("SELECT pg_advisory_lock(hashtextextended('theirs', 0))");
    const locks = stage.locks();
    const [holder] = (await locks.inspect('theirs')).holders;
    await expect(locks.evict('theirs', { id: holder?.id ?? '' })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('pg_terminate_backend'),
    });
    expect(await locks.evict('theirs', { id: 'nobody' })).toBe(false);
  });

  it('messages of other programs change nothing', async () => {
    const store = stage.store();
    const held = request('messages');
    await store.claim(held);
    const [pid] = await stage.sessionsWith('messages');
    const messages = ['', '{', 'null', '[]', '{"n":1}', '{"n":0,"of":1,"part":5}', '{"ask":"evict","n":1}'];
    for (const message of messages)
      await stage.query('SELECT pg_notify($1, $2)', [`holdfast_advisory_${pid}`, message]);
    await stage.query("SELECT pg_notify('holdfast_advisory', 'x')");
    expect((await store.renew(held, { ttlMs: 1_000 })).held).toBe(true);
    expect(await store.read('messages')).toHaveLength(1);
  });
});

describe('fences of advisory locks', () => {
  it('are the server’s time in µs, and never below what was seen', async () => {
    const store = stage.store();
    const first = await store.claim(request('fence'));
    const nowUs = BigInt(Date.now()) * 1000n;
    if (!first.granted) throw new Error('not granted');
    expect(first.fence).toBeGreaterThan(nowUs - 60_000_000n);
    expect(first.fence).toBeLessThan(nowUs + 60_000_000n);
    const ahead = request('ahead', { fenceAbove: nowUs + 3_600_000_000n });
    await expect(store.claim(ahead)).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    expect(await stage.sessionsWith('ahead')).toEqual([]);
  });

  it('that are refused because the clock is behind wake no claim to ask again at once', async () => {
    const [a, b] = [stage.store(), stage.store()];
    const held = request('behind');
    await a.claim(held);
    const wake = vi.fn();
    const wakes = (): number => wake.mock.calls.length;
    const fenceAbove = BigInt(Date.now()) * 1000n + 3_600_000_000n;
    const waiting = request(held.name, { wait: true, fenceAbove });
    expect(await b.claim(waiting, undefined, { wake })).toMatchObject({ granted: false });
    await a.release(held);
    await expect.poll(wakes).toBe(1);
    const refused = { code: 'STORE', applied: 'no' };
    await expect(b.claim(waiting, undefined, { wake })).rejects.toMatchObject(refused);
    expect(wakes()).toBe(1);
    expect(await stage.sessionsWith(held.name)).toEqual([]);
    // It still waits, and is woken again once it has asked again.
    await a.claim(held);
    expect(await b.claim(waiting, undefined, { wake })).toMatchObject({ granted: false });
    await a.release(held);
    await expect.poll(wakes).toBe(2);
  });

  it('are different for readers of one statement', async () => {
    const store = stage.store();
    const readers = Array.from({ length: 50 }, () => request('many', { mode: SHARED }));
    const outcomes = await Promise.all(readers.map((reader) => store.claim(reader)));
    const fences = outcomes.flatMap((outcome) => (outcome.granted ? [outcome.fence] : []));
    expect(new Set(fences).size).toBe(50);
  });
});

it('a process ends by itself when it has finished, with its session open and a lock held', async () => {
  const script = fileURLToPath(new URL('./support/advisory-idler.ts', import.meta.url));
  const child = fork(compiled(script), [stage.url], {
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  let isDone = false;
  child.on('message', () => {
    isDone = true;
  });
  // Not `exit`: its message may come after that.
  const [code] = await once(child, 'close');
  // Code 13: nothing was left that could have settled what it awaits.
  expect([code, isDone]).toEqual([0, true]);
}, 30_000);
