import { describe, expect, it } from 'vitest';
import type { Hold } from '../../src/index.ts';
import { storedName } from '../../src/use.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';
import { collectGarbage } from '../support/process/collect-garbage.ts';

describe('read-write lock', () => {
  it('lets readers share the lock and gives it to a writer alone', async () => {
    const { locks, clock } = makeWorld();
    const lock = locks().readWriteLock('a');
    const [one, two] = await Promise.all([lock.read.acquire(), lock.read.acquire()]);
    const writer = outcomeOf(lock.write.acquire());
    await clock.settle();
    expect(writer.state).toBe('pending');
    const late = outcomeOf(lock.read.acquire());
    await one.release();
    await two.release();
    await clock.settle();
    expect(writer.state).toBe('kept');
    expect(late.state, 'a reader behind a waiting writer waits').toBe('pending');
    await writer.value?.release();
    await clock.settle();
    expect(late.state).toBe('kept');
  });

  it('shares its writer with the mutex of that name', async () => {
    const { locks } = makeWorld();
    await locks().mutex('a').acquire();
    expect(await locks().readWriteLock('a').read.tryAcquire()).toBeNull();
  });
});

describe('semaphore', () => {
  it('grants as many permits as its capacity, several at a time, in order', async () => {
    const { locks, clock } = makeWorld();
    const pool = locks().semaphore('a', { permits: 3 });
    const two = await pool.acquire({ permits: 2 });
    const one = await pool.acquire();
    expect(await pool.tryAcquire()).toBeNull();
    const heavy = outcomeOf(pool.acquire({ permits: 3 }));
    const light = outcomeOf(pool.acquire());
    await two.release();
    await clock.settle();
    expect([heavy.state, light.state]).toEqual(['pending', 'pending']);
    await one.release();
    await clock.settle();
    expect([heavy.state, light.state]).toEqual(['kept', 'pending']);
  });

  it('recovers the permits of a dead holder', async () => {
    const { locks, clock } = makeWorld();
    await locks().semaphore('a', { permits: 1 }).acquire({ ttlMs: 1_000, renew: false });
    await clock.advance(1_001);
    expect(await locks().semaphore('a', { permits: 1 }).tryAcquire()).not.toBeNull();
  });

  it('refuses another number of permits', async () => {
    const { locks } = makeWorld();
    await locks().semaphore('a', { permits: 2 }).acquire();
    await expect(locks().semaphore('a', { permits: 3 }).acquire()).rejects.toMatchObject({
      code: 'MODE_MISMATCH',
      present: { of: 2 },
      asked: { of: 3 },
    });
  });
});

describe('all', () => {
  it('holds all or none, sorted, each name once', async () => {
    const { locks, store } = makeWorld();
    const both = locks().all(['b', 'a', 'b']);
    const hold = await both.acquire();
    expect(hold.names).toEqual(['a', 'b']);
    expect(hold.fenceOf('a')).toBeGreaterThan(0n);
    expect(hold.fenceOf('b')).toBeGreaterThan(hold.fenceOf('a'));
    expect(() => hold.fenceOf('c')).toThrow(/not among/);
    expect(await locks().all(['c', 'b']).tryAcquire()).toBeNull();
    expect(await store.read('c')).toEqual([]);
    expect(await hold.release()).toBe(true);
    expect(await hold.release()).toBe(false);
    expect(await store.read('a')).toEqual([]);
  });

  it('releases the others when one cannot be acquired in time', async () => {
    const { locks, clock, store } = makeWorld();
    await locks().mutex('b').acquire();
    const waiting = outcomeOf(locks().all(['a', 'b', 'c']).acquire({ waitMs: 1_000 }));
    await clock.advance(1_100);
    expect(waiting.error).toMatchObject({ code: 'ACQUIRE_TIMEOUT', lock: 'b' });
    expect(await store.read('a')).toEqual([]);
  });

  it('never deadlocks, whatever the order of the names', async () => {
    const { locks, clock } = makeWorld();
    let runs = 0;
    const work = [
      ['a', 'b', 'c'],
      ['c', 'b', 'a'],
      ['b', 'c'],
      ['c', 'a'],
      ['a', 'c', 'b'],
    ].flatMap((names) =>
      [1, 2, 3].map(() =>
        locks()
          .all(names)
          .run(
            async (hold) => {
              await clock.settle();
              hold.assertHeld();
              runs += 1;
            },
            { waitMs: 60_000 },
          ),
      ),
    );
    const done = outcomeOf(Promise.all(work));
    for (let turn = 0; turn < 200 && done.state === 'pending'; turn += 1) await clock.advance(10);
    expect(done.state).toBe('kept');
    expect(runs).toBe(15);
  });

  it('is lost when one of them is lost', async () => {
    const { locks, clock, store } = makeWorld();
    const hold = await locks().all(['a', 'b']).acquire({ ttlMs: 3_000 });
    const { signal } = hold;
    const [claim] = await store.read('b');
    await store.evict({ name: 'b', id: claim?.id ?? '' });
    await clock.advance(1_500);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ lock: 'b', how: 'taken' });
    expect(hold.remainingMs).toBe(0);
    expect(() => hold.assertHeld()).toThrow(/"b"/);
    expect(await hold.release()).toBe(false);
    expect(await store.read('a')).toEqual([]);
  });

  it('starts again when the first was lost during the wait for the last', async () => {
    const { locks, clock, store } = makeWorld();
    const blocker = await locks().mutex('b').acquire();
    const waiting = outcomeOf(locks().all(['a', 'b']).acquire({ ttlMs: 3_000, waitMs: 60_000 }));
    await clock.settle();
    const [claim] = await store.read('a');
    await store.evict({ name: 'a', id: claim?.id ?? '' });
    await clock.advance(2_000);
    await blocker.release();
    await clock.advance(1_000);
    expect(waiting.state).toBe('kept');
    waiting.value?.assertHeld();
  });

  it('extends all of them', async () => {
    const { locks } = makeWorld();
    const hold = await locks().all(['a', 'b']).acquire({ ttlMs: 1_000 });
    await hold.extend(50_000);
    expect(hold.remainingMs).toBeGreaterThan(49_000);
  });
});

describe('re-entrancy', () => {
  it('is off by default', async () => {
    const { locks } = makeWorld();
    const one = locks();
    await one.withLock('a', async () => {
      expect(await one.mutex('a').tryAcquire()).toBeNull();
      expect(await one.mutex('a').tryAcquire({ reentrant: true }), 'the outer one did not say so').toBeNull();
    });
  });

  it('shares the claim of the outer call, which releases it', async () => {
    const { locks, store } = makeWorld();
    const lock = locks().mutex('a', { reentrant: true });
    await lock.run(async (outer: Hold) => {
      await lock.run(async (inner: Hold) => {
        expect(inner.id).toBe(outer.id);
        expect(inner.fence).toBe(outer.fence);
        await inner.extend(5_000);
        inner.assertHeld();
      });
      outer.assertHeld();
      const again = await lock.acquire();
      expect(await again.release()).toBe(true);
      expect(await again.release()).toBe(false);
      expect(() => again.assertHeld()).toThrow(/released/);
      expect(again.remainingMs).toBe(0);
      outer.assertHeld();
    });
    expect(await store.read('a')).toEqual([]);
  });

  it('follows the asynchronous context, not the process', async () => {
    const { locks, clock } = makeWorld();
    const lock = locks().mutex('a', { reentrant: true });
    let inside = 0;
    const task = (): Promise<void> =>
      lock.run(async () => {
        inside += 1;
        expect(inside).toBe(1);
        await clock.settle();
        inside -= 1;
      });
    await Promise.all([task(), task(), task()]);
  });

  it('lets a writer read, but does not turn a reader into a writer', async () => {
    const { locks } = makeWorld();
    const { read, write } = locks().readWriteLock('a', { reentrant: true });
    await write.run(() => read.run(() => {}));
    await read.run(async () => {
      await expect(write.run(() => {})).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    });
  });

  it('looks at every outer call: a writer that reads may write inside of that', async () => {
    const { locks } = makeWorld();
    const { read, write } = locks().readWriteLock('a', { reentrant: true });
    expect(await write.run(() => read.run(() => write.run(() => 'written')))).toBe('written');
    const semaphore = locks().semaphore('s', { permits: 3, reentrant: true });
    const nested = semaphore.run(
      () => semaphore.run(() => semaphore.run(() => 'two', { permits: 2 }), { permits: 1 }),
      { permits: 3 },
    );
    expect(await nested).toBe('two');
  });

  it('a run that plans the next one is not kept by it', async () => {
    const { locks } = makeWorld();
    const lock = locks().mutex('a', { reentrant: true });
    let first: WeakRef<Hold> | undefined;
    let runs = 0;
    const isCollected = await new Promise<boolean>((resolve, reject) => {
      const tick = (): void => {
        const run = lock.run(async (hold) => {
          first ??= new WeakRef(hold);
          runs += 1;
          if (runs < 50) return void setImmediate(tick);
          await collectGarbage();
          resolve(first.deref() === undefined);
        });
        run.catch(reject);
      };
      tick();
    });
    expect(isCollected).toBe(true);
  });

  it('is lost in the inner call as well when the outer hold is lost', async () => {
    const { locks, clock } = makeWorld();
    const lock = locks().mutex('a', { reentrant: true, ttlMs: 1_000, renew: false });
    const run = lock.run(async () => {
      const inner = await lock.acquire();
      await clock.advance(1_000);
      expect(() => inner.assertHeld()).toThrow(/time ran out/);
    });
    await expect(run).rejects.toMatchObject({ code: 'HOLD_LOST' });
  });
});

describe('once', () => {
  it('runs in one process, reports running and then done, and forgets in the end', async () => {
    const { locks, clock } = makeWorld();
    const [one, two] = [locks(), locks()];
    let finish: (value: string) => void = () => {};
    const work = new Promise<string>((resolve) => {
      finish = resolve;
    });
    const first = one.once('report', () => work, { rememberMs: 60_000 });
    await clock.settle();
    expect(await two.once('report', () => 'mine')).toEqual({ ran: false, why: 'running' });
    finish('value');
    expect(await first).toEqual({ ran: true, value: 'value' });
    expect(await two.once('report', () => 'mine')).toEqual({ ran: false, why: 'done' });
    await clock.advance(60_001);
    expect(await two.once('report', () => 'mine')).toEqual({ ran: true, value: 'mine' });
  });

  it('remembers nothing of a run that threw', async () => {
    const { locks } = makeWorld();
    await expect(locks().once('report', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(await locks().once('report', () => 1)).toEqual({ ran: true, value: 1 });
  });

  it('has names of its own', async () => {
    const { locks } = makeWorld();
    await locks().mutex('report').acquire();
    expect(await locks().once('report', () => 1)).toEqual({ ran: true, value: 1 });
  });

  it('rejects when its hold was lost before the run could be remembered', async () => {
    const { locks, store } = makeWorld();
    const run = locks().once('report', async (hold: Hold) => {
      await store.evict({ name: storedName('once', hold.name), id: hold.id });
      return 1;
    });
    await expect(run).rejects.toMatchObject({ code: 'HOLD_LOST', value: 1 });
  });

  it('keeps waiting when its read fails', async () => {
    const { locks, faulty, clock } = makeWorld();
    const first = outcomeOf(locks().once('report', () => clock.sleep(5_000)));
    await clock.settle();
    let isFailing = true;
    const { locks: failing } = faulty(({ verb }) => (isFailing && verb === 'read' ? 'refuse' : null));
    const second = outcomeOf(failing.once('report', () => 2, { waitMs: 60_000 }));
    await clock.advance(1_000);
    expect(second.state).toBe('pending');
    isFailing = false;
    await clock.advance(5_000);
    expect([first.state, second.value]).toEqual(['kept', { ran: false, why: 'done' }]);
  });

  it('an abort during its read ends the wait', async () => {
    const { locks, faulty, clock } = makeWorld();
    void locks().once('report', () => clock.sleep(60_000));
    await clock.settle();
    const { locks: slow } = faulty(({ verb }) => (verb === 'read' ? 'hang' : null));
    const stop = new AbortController();
    const call = outcomeOf(slow.once('report', () => 2, { waitMs: 50_000, signal: stop.signal }));
    await clock.advance(100);
    stop.abort(new Error('enough'));
    await clock.advance(6_000);
    expect(call.error).toMatchObject({ message: 'enough' });
    await clock.advance(60_000);
  });

  it('waits for the run in progress with waitMs, and reports that it is done', async () => {
    const { locks, clock } = makeWorld();
    const first = outcomeOf(locks().once('report', () => clock.sleep(5_000)));
    await clock.settle();
    expect(await locks({ waitMs: 60_000 }).once('report', () => 2)).toEqual({ ran: false, why: 'running' });
    const second = outcomeOf(locks().once('report', () => 2, { waitMs: 60_000 }));
    await clock.advance(4_900);
    expect(second.state).toBe('pending');
    // Woken by the note of the finished run, not by a look every now and then.
    await clock.advance(110);
    expect(first.value).toEqual({ ran: true, value: undefined });
    expect(second.value).toEqual({ ran: false, why: 'done' });
    expect((await locks().inspect('report', { use: 'once' })).waiters).toEqual([]);
  });

  it('runs itself when the run that it waits for throws or dies', async () => {
    const { locks, clock } = makeWorld();
    const failing = outcomeOf(
      locks().once('a', async () => {
        await clock.sleep(1_000);
        throw new Error('failed');
      }),
    );
    void locks().once('b', () => new Promise(() => {}), { ttlMs: 1_000, renew: false });
    await clock.settle();
    const after = ['a', 'b'].map((name) => outcomeOf(locks().once(name, () => name, { waitMs: 60_000 })));
    await clock.advance(2_000);
    expect(failing.state).toBe('broken');
    expect(after.map(({ value }) => value)).toEqual([
      { ran: true, value: 'a' },
      { ran: true, value: 'b' },
    ]);
  });

  it('remembers for up to 366 days', async () => {
    const { locks, clock } = makeWorld();
    const dayMs = 86_400_000;
    await locks().once('yearly', () => 1, { rememberMs: 366 * dayMs });
    await clock.advance(365 * dayMs);
    expect(await locks().once('yearly', () => 2)).toEqual({ ran: false, why: 'done' });
    await clock.advance(2 * dayMs);
    expect(await locks().once('yearly', () => 3)).toEqual({ ran: true, value: 3 });
    await expect(locks().once('yearly', () => 1, { rememberMs: 367 * dayMs })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });
});

describe('rate limit', () => {
  it('lets at most its permits through in any window, in order', async () => {
    const { locks, clock } = makeWorld();
    const limit = locks().rateLimit('api', { permits: 3, perMs: 1_000 });
    const at: number[] = [];
    const work = Array.from({ length: 9 }, () => limit.take().then(() => at.push(clock.monotonicMs())));
    await clock.advance(5_000);
    await Promise.all(work);
    for (const from of at)
      expect(at.filter((each) => each >= from && each < from + 1_000).length).toBeLessThanOrEqual(3);
    expect(at[8]).toBeLessThan(2_500);
  });

  it('reports at once that the window is full', async () => {
    const { locks, clock } = makeWorld();
    const limit = locks().rateLimit('api', { permits: 2, perMs: 1_000 });
    expect([await limit.tryTake(2), await limit.tryTake()]).toEqual([true, false]);
    await clock.advance(1_001);
    expect(await limit.tryTake()).toBe(true);
    await expect(limit.take(3)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});
