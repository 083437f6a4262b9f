import { describe, expect, it } from 'vitest';
import { createLocks, memoryStore, type OnceOptions } from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { ManualNetwork } from '../simulation/manual-network.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';

/** A process whose messages move only when the test moves them. */
function makeLink() {
  const clock = virtualClock();
  const store = memoryStore({ clock });
  const network = new ManualNetwork(store);
  const locks = createLocks(network.connect('p'), { clock });
  const deliver = async (): Promise<void> => {
    while (network.messages.length > 0) {
      network.take(0).deliver();
      await clock.settle();
    }
  };
  return { clock, store, network, locks, deliver };
}

/** A `once` that a second request has run. The first one is still on its way. */
async function runOnce(options: OnceOptions) {
  const link = makeLink();
  const { clock, network, locks, deliver } = link;
  const ran = outcomeOf(locks.once('job', () => 1, { waitMs: 60_000, ...options }));
  await clock.settle();
  const late = network.take(0);
  await clock.advance(6_000);
  await deliver();
  await clock.settle();
  await deliver();
  expect(ran.value).toEqual({ ran: true, value: 1 });
  return { ...link, late };
}

describe('a claim that arrives after its caller has stopped waiting', () => {
  it('is released when its hold was released meanwhile', async () => {
    const { clock, store, network, locks, deliver } = makeLink();
    const acquiring = outcomeOf(locks.mutex('a').acquire({ waitMs: 60_000 }));
    await clock.settle();
    const late = network.take(0);
    await clock.advance(6_000);
    await deliver();
    expect(acquiring.state).toBe('kept');
    const released = acquiring.value?.release();
    await deliver();
    expect(await released).toBe(true);
    late.deliver();
    await clock.settle();
    expect(await store.read('a'), 'a ghost of the first request').toHaveLength(1);
    await deliver();
    expect(await store.read('a')).toEqual([]);
  });

  it('is removed as soon as its answer comes when its caller got an error', async () => {
    const { clock, store, network, locks, deliver } = makeLink();
    const trying = outcomeOf(locks.mutex('a').tryAcquire());
    await clock.settle();
    const late = network.take(0);
    await clock.advance(6_000);
    await deliver();
    expect(trying.error).toMatchObject({ code: 'STORE', applied: 'unknown' });
    late.deliver();
    await clock.settle();
    expect(await store.read('a')).toHaveLength(1);
    await deliver();
    expect(await store.read('a')).toEqual([]);
  });

  it('is removed although its answer is lost, by a few releases that go on only for the TTL', async () => {
    const { clock, store, network, locks, deliver } = makeLink();
    const acquiring = outcomeOf(locks.mutex('a').acquire({ waitMs: 60_000, ttlMs: 120_000 }));
    await clock.settle();
    const late = network.take(0);
    await clock.advance(6_000);
    await deliver();
    const released = acquiring.value?.release();
    await deliver();
    expect(await released).toBe(true);
    late.deliver();
    await clock.settle();
    // The client has given the connection up.
    network.take(0);
    expect(await store.read('a'), 'a ghost of the first request').toHaveLength(1);
    let releases = 0;
    for (let second = 0; second < 150; second += 1) {
      await clock.advance(1_000);
      releases += network.messages.length;
      await deliver();
      if (second === 6) expect(await store.read('a')).toEqual([]);
    }
    expect(releases).toBeGreaterThan(3);
    expect(releases).toBeLessThan(15);
  });

  it('is removed although an earlier release has found the claim of a wait that timed out', async () => {
    const { clock, store, network, locks, deliver } = makeLink();
    const holding = createLocks(store, { clock }).mutex('a').acquire({ ttlMs: 600_000 });
    await clock.settle();
    const acquiring = outcomeOf(locks.mutex('a').acquire({ waitMs: 8_000 }));
    await clock.settle();
    const late = network.take(0);
    await clock.advance(7_000);
    await deliver();
    await clock.advance(1_500);
    await deliver();
    await clock.advance(1);
    await deliver();
    expect(acquiring.error).toMatchObject({ code: 'ACQUIRE_TIMEOUT' });
    expect(await store.read('a')).toHaveLength(1);
    late.deliver();
    await clock.settle();
    network.take(0);
    expect(await store.read('a'), 'a ghost in the queue').toHaveLength(2);
    await clock.advance(7_000);
    await deliver();
    expect(await store.read('a')).toHaveLength(1);
    await (await holding).release();
  });

  it('does not cut short what a once remembers, and does not prolong it', async () => {
    const { clock, store, network, deliver, late } = await runOnce({ ttlMs: 3_000, rememberMs: 60_000 });
    const isRemembered = async () => (await store.read('once\u001fjob')).length > 0;
    await clock.advance(4_000);
    await deliver();
    late.deliver();
    await clock.settle();
    network.take(0);
    for (let second = 4; second < 58; second += 1) {
      expect(await isRemembered(), `after ${second} s`).toBe(true);
      await clock.advance(1_000);
      await deliver();
    }
    await clock.advance(4_000);
    expect(await isRemembered()).toBe(false);
  });

  it('is not remembered as a once that was forgotten meanwhile', async () => {
    const { clock, store, network, deliver, late } = await runOnce({ rememberMs: 3_600_000 });
    const stored = () => store.read('once\u001fjob');
    const [{ id = '' } = {}] = await stored();
    expect(await store.evict({ name: 'once\u001fjob', id })).toBe(true);
    // The renewal that leaves the claim behind is repeated, and finds nothing.
    await clock.advance(6_000);
    await deliver();
    late.deliver();
    await clock.settle();
    network.take(0);
    expect(await stored(), 'a ghost of the first request').toHaveLength(1);
    for (let second = 0; second < 20; second += 1) {
      await clock.advance(1_000);
      await deliver();
    }
    expect(await stored()).toEqual([]);
  });

  it('stays when it is meant to, as a permit of a rate limit', async () => {
    const { clock, store, network, locks, deliver } = makeLink();
    const limit = locks.rateLimit('api', { permits: 1, perMs: 60_000 });
    const taking = outcomeOf(limit.take(1, { waitMs: 60_000 }));
    await clock.settle();
    const late = network.take(0);
    await clock.advance(6_000);
    await deliver();
    expect(taking.state).toBe('kept');
    late.deliver();
    await clock.settle();
    await deliver();
    expect(await store.read('rate\u001fapi')).toHaveLength(1);
  });
});

describe('closing', () => {
  it('leaves no timer that would keep the process alive', async () => {
    const { locks, clock } = makeWorld();
    const one = locks();
    const hold = await one.mutex('a').acquire();
    const closed = outcomeOf(one.close({ drainMs: 3_600_000 }));
    await clock.settle();
    await hold.release();
    await clock.settle();
    expect(closed.state).toBe('kept');
    await clock.advance(6_000);
    expect(clock.timers).toBe(0);
  });

  it('ends the repetition of releases, also between two of them', async () => {
    const { clock, network, locks, deliver } = makeLink();
    const acquiring = outcomeOf(locks.mutex('a').acquire({ waitMs: 60_000, ttlMs: 3_600_000 }));
    await clock.settle();
    network.take(0);
    await clock.advance(6_000);
    await deliver();
    const released = acquiring.value?.release();
    await deliver();
    expect(await released).toBe(true);
    const closed = outcomeOf(locks.close());
    await clock.advance(2_000);
    expect(closed.state).toBe('kept');
    await clock.advance(3_600_000);
    expect(network.messages).toEqual([]);
  });

  it('ends although the close of the store hangs', async () => {
    const { store, clock } = makeWorld();
    const locks = createLocks(Object.assign(store, { close: () => new Promise<void>(() => {}) }), { clock });
    const closed = outcomeOf(locks.close());
    await clock.advance(12_000);
    expect(closed.state).toBe('kept');
  });
});

describe('a short wait', () => {
  it('does not shorten the time limit of the store', async () => {
    const { clock, network, locks, deliver } = makeLink();
    const acquiring = outcomeOf(locks.mutex('a').acquire({ waitMs: 50 }));
    await clock.advance(700);
    expect(network.messages).toHaveLength(1);
    await deliver();
    expect(acquiring.state).toBe('kept');
  });
});

describe('all', () => {
  it('rejects instead of waiting for itself, because it is not re-entrant', async () => {
    const { locks } = makeWorld();
    expect(() => locks().all(['a'], { reentrant: true })).toThrow(/several locks/);
    await expect(locks().all(['a']).acquire({ reentrant: true })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });
});
