import { describe, expect, it } from 'vitest';
import { HoldLostError } from '../../src/index.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';

describe('a hold', () => {
  it('is renewed for as long as it is held', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 3_000 });
    await clock.advance(60_000);
    hold.assertHeld();
    expect(hold.remainingMs).toBeGreaterThan(1_900);
    expect(await locks().mutex('a').tryAcquire()).toBeNull();
  });

  it('is renewed after every third of the granted time, or every renewEveryMs', async () => {
    const { faulty, clock } = makeWorld();
    const { locks, store } = faulty(() => null);
    const renewals = () => store.calls.filter((call) => call.verb === 'renew').length;
    const first = await locks.mutex('a').acquire({ ttlMs: 30_000 });
    await clock.advance(100_500);
    expect(renewals()).toBe(10);
    await first.release();
    const before = renewals();
    await locks.mutex('b').acquire({ ttlMs: 30_000, renewEveryMs: 1_000 });
    await clock.advance(10_500);
    expect(renewals() - before).toBe(10);
  });

  it('is not renewed with renew: false, and its signal aborts before another can hold', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 1_000, renew: false });
    const next = outcomeOf(locks().mutex('a').acquire());
    const signal = hold.signal;
    await clock.advance(985);
    expect(signal.aborted).toBe(false);
    await clock.advance(4);
    expect(signal.aborted).toBe(true);
    expect(next.state).toBe('pending');
    await clock.advance(12);
    expect(next.state).toBe('kept');
  });

  it('is lost when the store says that the claim is gone: taken', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 3_000 });
    const { signal } = hold;
    expect(await locks().evict('a', hold)).toBe(true);
    await clock.advance(1_100);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toBeInstanceOf(HoldLostError);
    expect(signal.reason).toMatchObject({ code: 'HOLD_LOST', lock: 'a', fence: hold.fence, how: 'taken' });
    expect(() => hold.assertHeld()).toThrow(HoldLostError);
    expect(hold.remainingMs).toBe(0);
  });

  it('survives failed renewals until its deadline, and retries them', async () => {
    const { faulty, clock } = makeWorld();
    const { locks, store } = faulty((call) => (call.verb === 'renew' && call.n <= 4 ? 'fail' : null));
    const failed: number[] = [];
    locks.on('renewFailed', (event) => failed.push(event.remainingMs));
    const hold = await locks.mutex('a').acquire({ ttlMs: 3_000 });
    await clock.advance(20_000);
    hold.assertHeld();
    expect(failed).toHaveLength(3);
    expect(store.calls.filter((call) => call.verb === 'renew').length).toBeGreaterThan(15);
  });

  it('is lost by its own deadline when the store does not answer: expired', async () => {
    for (const fault of ['refuse', 'fail', 'lose', 'hang'] as const) {
      const { locks: others, faulty, clock } = makeWorld();
      const { locks } = faulty((call) => (call.verb === 'renew' ? fault : null));
      const hold = await locks.mutex('a').acquire({ ttlMs: 3_000 });
      const lostAt: number[] = [];
      hold.signal.addEventListener('abort', () => lostAt.push(clock.monotonicMs()));
      const next = others().mutex('a').acquire({ waitMs: 20_000 });
      const heldAt = next.then(() => clock.monotonicMs());
      await clock.advance(3_000 + 3_000);
      expect(lostAt, fault).toHaveLength(1);
      expect(hold.signal.reason, fault).toMatchObject({ how: 'expired' });
      expect(lostAt[0], fault).toBeLessThanOrEqual(await heldAt);
    }
  });

  it('counts a late confirmation from when it was requested', async () => {
    const { clock, store } = makeWorld();
    const { createLocks } = await import('../../src/index.ts');
    const slow = {
      ...bound(store),
      renew: async (...args: Parameters<typeof store.renew>) => {
        await later(clock, 1_200);
        return await store.renew(...args);
      },
    };
    const hold = await createLocks(slow, { clock }).mutex('a').acquire({ ttlMs: 3_000 });
    await clock.advance(60_000);
    hold.assertHeld();
  });

  it('has one pending renewal at a time, so that the last answer belongs to the last request', async () => {
    const { clock, store } = makeWorld();
    const { createLocks } = await import('../../src/index.ts');
    let inFlight = 0;
    let most = 0;
    const slow = {
      ...bound(store),
      renew: async (...args: Parameters<typeof store.renew>) => {
        inFlight += 1;
        most = Math.max(most, inFlight);
        await later(clock, 200);
        inFlight -= 1;
        return await store.renew(...args);
      },
    };
    const hold = await createLocks(slow, { clock }).mutex('a').acquire({ ttlMs: 3_000 });
    await clock.advance(1_100);
    const extended = Promise.all([hold.extend(60_000), hold.extend(50_000)]);
    await clock.advance(1_000);
    await extended;
    expect(most).toBe(1);
    expect(hold.remainingMs).toBeGreaterThan(40_000);
    expect(hold.remainingMs).toBeLessThan(50_000);
  });

  it('never becomes valid again once it is lost', async () => {
    const { faulty, clock } = makeWorld();
    let down = true;
    const { locks } = faulty((call) => (call.verb === 'renew' && down ? 'refuse' : null));
    const hold = await locks.mutex('a').acquire({ ttlMs: 1_000 });
    await clock.advance(995);
    down = false;
    expect(() => hold.assertHeld()).toThrow(HoldLostError);
    await expect(hold.extend()).rejects.toMatchObject({ code: 'HOLD_LOST' });
    await clock.advance(10_000);
    expect(hold.remainingMs).toBe(0);
  });

  it('ends at maxHoldMs although renewals succeed', async () => {
    const { locks, clock, faulty } = makeWorld();
    const { locks: counted, store } = faulty(() => null);
    const hold = await counted.mutex('a').acquire({ ttlMs: 3_000, maxHoldMs: 10_000 });
    await clock.advance(9_999);
    hold.assertHeld();
    await clock.advance(2);
    expect(store.calls.filter(({ verb }) => verb === 'renew').length, 'at their usual pace').toBeLessThan(11);
    expect(hold.signal.aborted).toBe(true);
    expect(hold.signal.reason).toMatchObject({ how: 'expired' });
    await clock.advance(3_100);
    expect(await locks().mutex('a').tryAcquire()).not.toBeNull();
  });

  it('can be extended, and keeps the new TTL', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 1_000 });
    await hold.extend(60_000);
    expect(hold.remainingMs).toBeGreaterThan(59_000);
    await clock.advance(120_000);
    expect(hold.remainingMs).toBeGreaterThan(30_000);
    await expect(hold.extend(0)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  it('extends an unrenewed hold without starting to renew it', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 1_000, renew: false });
    await clock.advance(900);
    await hold.extend();
    await clock.advance(900);
    hold.assertHeld();
    await clock.advance(100);
    expect(() => hold.assertHeld()).toThrow(HoldLostError);
  });

  it('rejects an extension that was not confirmed, and lasts for the time that was left', async () => {
    const { faulty, clock } = makeWorld();
    const { locks } = faulty((call) => (call.verb === 'renew' ? 'refuse' : null));
    const hold = await locks.mutex('a').acquire({ ttlMs: 10_000, renew: false });
    await clock.advance(1_000);
    await expect(hold.extend(20_000)).rejects.toMatchObject({ code: 'STORE' });
    hold.assertHeld();
    expect(hold.remainingMs).toBeLessThan(9_000);
  });

  it('can be converted to JSON, but not sent to a thread', async () => {
    const { locks } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    expect(JSON.parse(JSON.stringify(hold))).toMatchObject({
      name: 'a',
      id: hold.id,
      fence: hold.fence.toString(),
    });
    expect(() => structuredClone(hold)).toThrow(/could not be cloned/);
  });

  it('is released by `await using`, which never rejects', async () => {
    const { locks, faulty, clock, store } = makeWorld();
    {
      await using hold = await locks().mutex('a').acquire();
      expect(await store.read('a')).toHaveLength(1);
      hold.assertHeld();
    }
    expect(await store.read('a')).toEqual([]);
    const { locks: failing } = faulty((call) => (call.verb === 'release' ? 'refuse' : null));
    const failures: unknown[] = [];
    failing.on('releaseFailed', (event) => failures.push(event.error));
    const hold = await failing.mutex('b').acquire();
    const disposed = outcomeOf(Promise.resolve(hold[Symbol.asyncDispose]()));
    await clock.advance(10_000);
    expect(disposed.state).toBe('kept');
    expect(failures).toHaveLength(1);
  });
});

describe('release', () => {
  it('resolves to true once, to false afterwards, and does not abort the signal', async () => {
    const { locks } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    const { signal } = hold;
    const results = await Promise.all([hold.release(), hold.release()]);
    expect(results).toEqual([true, false]);
    expect(await hold.release()).toBe(false);
    expect(signal.aborted).toBe(false);
    expect(hold.remainingMs).toBe(0);
    expect(() => hold.assertHeld()).toThrow(expect.objectContaining({ how: 'released' }));
  });

  it('resolves to true when its reply was lost and a second try finds the claim gone', async () => {
    const { faulty, clock } = makeWorld();
    const { locks } = faulty((call) => (call.n === 2 ? 'lose' : null));
    const hold = await locks.mutex('a').acquire();
    const released = outcomeOf(hold.release());
    await clock.advance(1_000);
    expect(released.value).toBe(true);
  });

  it('resolves to false, and the hold is lost, when the claim had been evicted', async () => {
    const { locks, store } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    const { signal } = hold;
    await store.evict(hold);
    expect(await hold.release()).toBe(false);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ how: 'taken' });
  });

  it('rejects when the store stays silent, can be repeated, and is retried in the background', async () => {
    const { faulty, clock, store } = makeWorld();
    let down = true;
    const { locks } = faulty((call) => (call.verb === 'release' && down ? 'refuse' : null));
    const hold = await locks.mutex('a').acquire();
    const released = outcomeOf(hold.release());
    await clock.advance(6_000);
    expect(released.error).toMatchObject({ code: 'STORE' });
    down = false;
    expect(await hold.release()).toBe(true);
    expect(await store.read('a')).toEqual([]);

    down = true;
    const other = await locks.mutex('b').acquire();
    const failed = outcomeOf(other.release());
    await clock.advance(6_000);
    expect(failed.state).toBe('broken');
    down = false;
    await clock.advance(10_000);
    expect(await store.read('b')).toEqual([]);
  });

  it('of a lost hold removes what the store still has of it', async () => {
    const { locks, clock, store } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 30_000 });
    clock.jumpWall(3_600_000);
    expect(() => hold.assertHeld()).toThrow(HoldLostError);
    expect(await hold.release()).toBe(false);
    await clock.settle();
    expect(await store.read('a')).toEqual([]);
  });
});

function bound<S extends object>(store: S): S {
  const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(store));
  const copy: Record<string, unknown> = Object.fromEntries(Object.entries(store));
  for (const method of methods) {
    const value: unknown = Reflect.get(store, method);
    if (typeof value === 'function') copy[method] = value.bind(store);
  }
  return copy as S;
}

function later(clock: { startTimer(ms: number, fire: () => void): unknown }, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.startTimer(ms, resolve));
}
