import { describe, expect, it } from 'vitest';
import { createLocks, memoryStore } from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { ManualNetwork } from '../simulation/manual-network.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';

/**
 * A process whose messages move only when the test moves them, and another process that is always
 * connected.
 */
function makeLink() {
  const clock = virtualClock();
  const store = memoryStore({ clock });
  const network = new ManualNetwork(store);
  const locks = createLocks(network.connect('p'), { clock });
  const others = createLocks(store, { clock });
  const deliver = async (): Promise<void> => {
    while (network.messages.length > 0) {
      network.take(0).deliver();
      await clock.settle();
    }
  };
  const hold = async (ttlMs: number) => {
    const acquiring = locks.mutex('a').acquire({ ttlMs });
    await clock.settle();
    await deliver();
    return await acquiring;
  };
  return { clock, store, network, locks, others, deliver, hold };
}

describe('a renewal of unknown outcome', () => {
  it('that shortened the lease aborts the signal before another can hold', async () => {
    const { faulty, locks, clock } = makeWorld();
    const { locks: mine } = faulty((call) => (call.verb === 'renew' ? 'hang' : null));
    const hold = await mine.mutex('a').acquire({ ttlMs: 30_000 });
    const startedMs = clock.monotonicMs();
    const abortedMs: number[] = [];
    // Reading the signal later would look at the deadline.
    hold.signal.addEventListener('abort', () => abortedMs.push(clock.monotonicMs() - startedMs));
    const extending = outcomeOf(hold.extend(1_000));
    await clock.advance(6_000);
    expect(extending.state).toBe('broken');
    expect(abortedMs).toEqual([expect.closeTo(988, -1)]);
    await Promise.all([mine.close({ drainMs: 0 }), clock.advance(60_000), locks().close()]);
  });

  it.each([true, false])(
    'may have shortened the lease: the hold is trusted no longer than that (renewed: %s)',
    async (renew) => {
      const { faulty, locks, clock } = makeWorld();
      const { locks: mine } = faulty((call) => (call.verb === 'renew' ? 'lose' : null));
      const hold = await mine.mutex('a').acquire({ ttlMs: 30_000, renew });
      const extended = outcomeOf(hold.extend(1_000));
      await clock.settle();
      expect(extended.error).toMatchObject({ code: 'STORE' });
      expect(hold.remainingMs).toBeLessThan(1_000);
      let overlap = false;
      const next = locks()
        .mutex('a')
        .acquire({ waitMs: 120_000 })
        .then(() => {
          overlap = hold.remainingMs > 0;
        });
      await clock.advance(60_000);
      await next;
      expect(overlap).toBe(false);
    },
  );

  it('may be executed after a later one was confirmed: the shorter of the two counts', async () => {
    const { clock, network, others, deliver, hold } = makeLink();
    const mine = await hold(3_000);
    await clock.advance(1_000);
    const stuck = network.take(0);
    await clock.advance(1_000);
    const extended = outcomeOf(mine.extend(60_000));
    await clock.settle();
    await deliver();
    expect(extended.state).toBe('kept');
    stuck.deliver();
    await clock.settle();
    const next = outcomeOf(others.mutex('a').acquire({ waitMs: 60_000 }));
    for (let step = 0; step < 20; step += 1) {
      await clock.advance(200);
      network.messages.length = 0;
      expect(next.state === 'kept' && mine.remainingMs > 0).toBe(false);
    }
    expect(next.state).toBe('kept');
  });

  it('does not undo later confirmations when its answer comes at last', async () => {
    const { clock, network, deliver, hold } = makeLink();
    const mine = await hold(3_000);
    await clock.advance(1_000);
    network.take(0).deliver();
    await clock.settle();
    const late = network.take(0);
    for (let step = 0; step < 40; step += 1) {
      await clock.advance(100);
      await deliver();
    }
    const before = mine.remainingMs;
    late.deliver();
    await clock.settle();
    expect(mine.remainingMs).toBe(before);
  });

  it('does not shorten the record of a finished once', async () => {
    const { clock, store, network, locks, deliver } = makeLink();
    let finish: (value: number) => void = () => {};
    const ran = outcomeOf(
      locks.once(
        'job',
        () =>
          new Promise<number>((resolve) => {
            finish = resolve;
          }),
        { ttlMs: 3_000 },
      ),
    );
    await clock.settle();
    await deliver();
    await clock.advance(1_000);
    const stuck = network.take(0);
    finish(1);
    await clock.advance(1_000);
    await deliver();
    await clock.settle();
    await deliver();
    expect(ran.value).toEqual({ ran: true, value: 1 });
    stuck.deliver();
    await clock.settle();
    await deliver();
    expect((await store.read('once\u001fjob'))[0]?.expiresInMs).toBeGreaterThan(86_000_000);
  });

  it('leaves one chain of retries, however often a renewal is requested', async () => {
    const { faulty, clock } = makeWorld();
    const { locks, store } = faulty((call) => (call.verb === 'renew' ? 'refuse' : null));
    const hold = await locks.mutex('a').acquire({ ttlMs: 60_000 });
    for (let n = 0; n < 50; n += 1) await hold.extend().catch(() => {});
    const before = store.calls.length;
    await clock.advance(20_000);
    expect(store.calls.length - before).toBeLessThan(20);
    expect(clock.timers).toBeLessThan(12);
  });
});

describe('a release of unknown outcome', () => {
  it('is not a loss when the background clean-up was first', async () => {
    const { faulty, clock } = makeWorld();
    let down = true;
    const { locks } = faulty((call) => (down && call.verb === 'release' ? 'fail' : null));
    const lost: unknown[] = [];
    locks.on('lost', (event) => lost.push(event));
    const hold = await locks.mutex('a').acquire();
    const { signal } = hold;
    const first = outcomeOf(hold.release());
    await clock.advance(6_000);
    expect(first.error).toMatchObject({ code: 'STORE' });
    down = false;
    await clock.advance(10_000);
    expect(await hold.release()).toBe(false);
    expect([signal.aborted, lost.length]).toEqual([false, 0]);
  });

  it('is awaited by the clean-up of a late claim, so that a good run is not reported as lost', async () => {
    const { clock, store, network, locks, deliver } = makeLink();
    const run = outcomeOf(locks.withLock('a', () => 'fine', { waitMs: 60_000 }));
    await clock.settle();
    const late = network.take(0);
    await clock.advance(6_000);
    network.take(0).deliver();
    await clock.settle();
    network.take(0).deliver();
    await clock.settle();
    // The release is on its way when the first claim is carried out and answered after all.
    late.deliver();
    await clock.settle();
    network
      .take(network.messages.findIndex(({ kind, label }) => kind === 'reply' && label.includes('claim a')))
      .deliver();
    await clock.settle();
    await deliver();
    expect(run).toMatchObject({ state: 'kept', value: 'fine' });
    await clock.settle();
    await deliver();
    expect(await store.read('a')).toEqual([]);
  });
});

describe('after a jump of the clocks', () => {
  it('a hold that is still valid is renewed, or lost in time when it cannot be', async () => {
    const { faulty, locks: others, clock, store } = makeWorld();
    let down = false;
    const { locks } = faulty((call) => (down && call.verb === 'renew' ? 'fail' : null));
    const hold = await locks.mutex('a').acquire({ ttlMs: 30_000 });
    const { signal } = hold;
    down = true;
    await clock.advance(500);
    // The host is suspended for 25 s: no timer runs, but the store's clock does.
    clock.jumpWall(25_000);
    await store.renew(hold, { ttlMs: 4_500 });
    const next = outcomeOf(others().mutex('a').acquire({ waitMs: 60_000 }));
    for (let step = 0; step < 60; step += 1) {
      await clock.advance(100);
      expect(next.state === 'kept' && !signal.aborted, `after ${step} steps`).toBe(false);
    }
    expect(next.state).toBe('kept');
  });
});
