import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/clock.ts';
import { createLocks, type Hold, HoldLostError, memoryStore, type Store } from '../../../src/index.ts';
import { faultyStore, virtualClock } from '../../../src/testing/index.ts';
import { codeOf, makeWorld, outcomeOf } from '../../support/memory/world.ts';

const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
beforeEach(() => void process.on('unhandledRejection', onUnhandled));
afterEach(() => {
  process.off('unhandledRejection', onUnhandled);
  expect(unhandled.splice(0)).toEqual([]);
});

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

describe('clocks', () => {
  it('row 4: the wall clock set back changes nothing', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 3_000 });
    const { signal } = hold;
    clock.jumpWall(-3_600_000);
    await clock.advance(30_000);
    hold.assertHeld();
    expect(signal.aborted).toBe(false);
    const unrenewed = await locks().mutex('b').acquire({ ttlMs: 3_000, renew: false });
    clock.jumpWall(-3_600_000);
    await clock.advance(2_970);
    expect(() => unrenewed.assertHeld(), 'and makes no hold longer').toThrow(HoldLostError);
  });

  it('row 4: the wall clock set forward gives an early loss, never a longer hold', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 3_000 });
    clock.jumpWall(3_600_000);
    expect(() => hold.assertHeld()).toThrow(HoldLostError);
    expect(hold.remainingMs).toBe(0);
  });

  it('row 4: a Locks that was made before the jump works after it', async () => {
    const { locks, clock } = makeWorld();
    const one = locks();
    await one.mutex('a').acquire({ ttlMs: 3_000 });
    clock.jumpWall(3_600_000);
    await clock.advance(5_000);
    const hold = await one.mutex('a').acquire({ ttlMs: 3_000 });
    await clock.advance(30_000);
    hold.assertHeld();
  });

  it('row 5: a host that was suspended past the TTL loses its hold within a second', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 60_000 });
    const { signal } = hold;
    await clock.advance(500);
    clock.jumpWall(120_000);
    await clock.advance(1_000);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ how: 'expired' });
  });

  it('row 5: a renewal that was pending when the host was suspended does not delay the loss', async () => {
    const { faulty, clock } = makeWorld();
    const { locks } = faulty(({ verb }) => (verb === 'renew' ? 'hang' : null));
    const hold = await locks.mutex('a').acquire({ ttlMs: 30_000 });
    const { signal } = hold;
    await clock.advance(10_100);
    clock.jumpWall(60_000);
    await clock.advance(1_000);
    expect(signal.reason).toMatchObject({ how: 'expired' });
  });

  it('row 5: a hold that is not renewed is lost when it is next looked at', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 60_000, renew: false });
    await clock.advance(500);
    clock.jumpWall(120_000);
    expect(() => hold.assertHeld()).toThrow(HoldLostError);
    expect(hold.signal.aborted).toBe(true);
  });

  it('row 3: a stall past the TTL is noticed before any other timer fires', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 1_000 });
    const { signal } = hold;
    await clock.stall(5_000);
    expect(signal.aborted).toBe(true);
    expect(() => hold.assertHeld()).toThrow(HoldLostError);
  });
});

describe('tasks of one process', () => {
  it('row 9: exclude each other', async () => {
    const { locks, clock } = makeWorld();
    const one = locks();
    let inside = 0;
    let most = 0;
    const task = (): Promise<void> =>
      one.withLock('a', async () => {
        inside += 1;
        most = Math.max(most, inside);
        await turn();
        inside -= 1;
      });
    const all = outcomeOf(Promise.all(Array.from({ length: 20 }, task)));
    for (let turns = 0; turns < 200 && all.state === 'pending'; turns += 1) await clock.advance(1);
    expect(all.state).toBe('kept');
    expect(most).toBe(1);
  });

  it('row 15: an earlier hold cannot release the present one', async () => {
    const { locks, store } = makeWorld();
    const one = locks();
    const first = await one.mutex('a').acquire();
    await first.release();
    const second = await one.mutex('a').acquire();
    expect(await first.release()).toBe(false);
    second.assertHeld();
    expect((await store.read('a'))[0]?.id).toBe(second.id);
  });
});

describe('races', () => {
  it('row 10: an abort at any instant around the grant gives a hold or an error, no orphan', async () => {
    let kept = 0;
    let broken = 0;
    for (let ticks = 0; ticks < 60; ticks += 1) {
      const { locks, clock, store } = makeWorld();
      const one = locks();
      const controller = new AbortController();
      const blocker = ticks % 2 === 0 ? await one.mutex('a').acquire() : null;
      const acquiring = outcomeOf(locks().mutex('a').acquire({ signal: controller.signal }));
      if (blocker !== null) {
        await clock.settle();
        void blocker.release();
      }
      for (let tick = 0; tick < ticks / 2; tick += 1) await null;
      controller.abort(new Error('now'));
      await clock.advance(10);
      if (acquiring.state === 'kept') {
        kept += 1;
        acquiring.value?.assertHeld();
        await acquiring.value?.release();
      } else {
        broken += 1;
        expect(acquiring.error).toMatchObject({ message: 'now' });
      }
      await clock.advance(10);
      expect(await store.read('a'), `after ${ticks} ticks`).toEqual([]);
      expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
    }
    expect(kept, 'some of the instants came after the grant').toBeGreaterThan(5);
    expect(broken, 'and some before').toBeGreaterThan(5);
  });

  it('row 11: a release that fails half-way can be repeated, and reports its outcome', async () => {
    for (const fault of ['refuse', 'fail', 'lose'] as const) {
      const { faulty, clock, store } = makeWorld();
      let failures = 0;
      const { locks } = faulty((call) => (call.verb === 'release' && failures++ < 100 ? fault : null));
      const hold = await locks.mutex('a').acquire();
      const first = outcomeOf(hold.release());
      await clock.advance(6_000);
      expect(codeOf(first.error), fault).toBe('STORE');
      expect(() => hold.assertHeld()).toThrow(HoldLostError);
      failures = 100;
      await hold.release();
      expect(await store.read('a'), fault).toEqual([]);
    }
  });

  it('row 12: a release during a pending renewal is not a loss, and ends the renewals', async () => {
    const clock = virtualClock();
    const inner = memoryStore({ clock });
    const slow = slowed(inner, 400, (ms) => new Promise((resolve) => void clock.startTimer(ms, resolve)));
    const locks = createLocks(slow, { clock });
    const lost: unknown[] = [];
    locks.on('lost', (event) => lost.push(event));
    const acquiring = locks.mutex('a').acquire({ ttlMs: 3_000 });
    await clock.advance(500);
    const hold = await acquiring;
    for (let wait = 0; wait < 1_200; wait += 100) {
      const again = outcomeOf(locks.mutex(`a${wait}`).acquire({ ttlMs: 3_000 }));
      await clock.advance(500 + wait);
      const released = outcomeOf(again.value?.release() ?? Promise.reject(new Error('not held')));
      await clock.advance(1_000);
      expect(released.value).toBe(true);
      await clock.advance(10_000);
      expect(await inner.read(`a${wait}`), 'nothing lives on').toEqual([]);
    }
    expect(lost).toEqual([]);
    hold.assertHeld();
  });

  it('row 14: one failed renewal neither ends the renewals nor affects the next hold', async () => {
    const { faulty, clock } = makeWorld();
    let failing = true;
    const { locks } = faulty((call) => (call.verb === 'renew' && failing ? 'fail' : null));
    const first = await locks.mutex('a').acquire({ ttlMs: 3_000 });
    await clock.advance(1_500);
    failing = false;
    await clock.advance(30_000);
    first.assertHeld();
    await first.release();
    const second = await locks.mutex('a').acquire({ ttlMs: 3_000 });
    await clock.advance(30_000);
    second.assertHeld();
  });

  it('row 17: the error of the function wins over a failed release, which is attached', async () => {
    const { faulty, clock } = makeWorld();
    const { locks } = faulty((call) => (call.verb === 'release' ? 'fail' : null));
    const run = outcomeOf(locks.withLock('a', () => Promise.reject(new TypeError('mine'))));
    await clock.advance(6_000);
    expect(run.error).toBeInstanceOf(TypeError);
    expect(codeOf((run.error as { releaseError?: unknown }).releaseError)).toBe('STORE');
  });
});

describe('many', () => {
  it('row 18: ten thousand waiters are served in order, each with a few commands', async () => {
    const { createLocks: create } = await import('../../../src/index.ts');
    const store = faultyStore(memoryStore(), () => null);
    const locks = create(store, { waitMs: 86_400_000 });
    const hold = await locks.mutex('a').acquire();
    const order: number[] = [];
    const waits = Array.from({ length: 10_000 }, async (_, n) => {
      const mine = await locks.mutex('a').acquire();
      order.push(n);
      await mine.release();
    });
    await turn();
    await hold.release();
    await Promise.all(waits);
    expect(order).toEqual(Array.from({ length: 10_000 }, (_, n) => n));
    // Claim, release: the grant comes with the wake-up.
    expect(store.calls.length / 10_000).toBeLessThan(2.1);
    await locks.close();
  });

  it('row 18: ten thousand locks are held at once, renewed together, and leave nothing', async () => {
    const { faulty, clock, store } = makeWorld();
    const { locks, store: counted } = faulty(() => null);
    const holds: Hold[] = await Promise.all(
      Array.from({ length: 10_000 }, (_, n) => locks.mutex(`lock ${n}`).acquire()),
    );
    const before = counted.calls.length;
    const timersWhileHeld = clock.timers;
    await clock.advance(10_000);
    expect(counted.calls.length - before).toBe(10_000);
    expect(timersWhileHeld, 'not a timer each').toBeLessThan(20);
    expect(await locks.releaseAll()).toBe(10_000);
    for (const hold of holds) expect(hold.remainingMs).toBe(0);
    for await (const name of store.list('')) expect.fail(`${name} is left`);
  });

  it('row 19: absurd times are refused, and long timers do not fire at once', async () => {
    const { locks } = makeWorld();
    for (const ttlMs of [2 ** 31, 2 ** 53, Number.NaN, Number.POSITIVE_INFINITY]) {
      await expect(locks().mutex('a').acquire({ ttlMs })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    }
    let fired = 0;
    const timers = [2 ** 31, 2 ** 33, Number.MAX_SAFE_INTEGER].map((ms) =>
      systemClock.startTimer(ms, () => void fired++),
    );
    await new Promise((resolve) => void setTimeout(resolve, 50));
    for (const timer of timers) timer.cancel();
    expect(fired).toBe(0);
  });
});

/** The same store, with this delay for every command. */
function slowed(store: Store, ms: number, sleep: (ms: number) => Promise<void>): Store {
  return {
    traits: store.traits,
    claim: async (request, signal, waiter) => {
      await sleep(ms);
      return await store.claim(request, signal, waiter);
    },
    renew: async (ref, change) => {
      await sleep(ms);
      return await store.renew(ref, change);
    },
    release: async (ref) => {
      await sleep(ms);
      return await store.release(ref);
    },
    evict: (ref) => store.evict(ref),
    watch: (target, wake) => store.watch(target, wake),
    read: (name) => store.read(name),
    list: (prefix) => store.list(prefix),
    close: () => store.close(),
  };
}
