import { describe, expect, it } from 'vitest';
import { createLocks, memoryStore } from '../../src/index.ts';
import { faultyStore, virtualClock } from '../../src/testing/index.ts';
import { ManualNetwork } from '../simulation/manual-network.ts';
import { codeOf, makeWorld, outcomeOf } from '../support/memory/world.ts';

describe('closing', () => {
  it.each([false, true])(
    'waits for a pending claim and releases it (with a signal: %s)',
    async (withSignal) => {
      const clock = virtualClock();
      const store = memoryStore({ clock });
      const network = new ManualNetwork(store);
      let closed = false;
      const link = Object.assign(network.connect('p'), {
        close: async () => {
          closed = true;
        },
      });
      const locks = createLocks(link, { clock });
      const signal = withSignal ? new AbortController().signal : undefined;
      const acquiring = outcomeOf(locks.mutex('a').acquire({ signal }));
      await clock.settle();
      const closing = outcomeOf(locks.close());
      await clock.advance(100);
      for (let turn = 0; turn < 20 && !closed; turn += 1) {
        while (network.messages.length > 0) network.take(0).deliver();
        await clock.advance(10);
      }
      expect(codeOf(acquiring.error)).toBe('CLOSED');
      expect(closing.state).toBe('kept');
      expect(await store.read('a')).toEqual([]);
    },
  );

  it('waits for a release that has to be retried', async () => {
    const { store, clock } = makeWorld();
    let failures = 0;
    const faulty = faultyStore(store, (call) =>
      call.verb === 'release' && failures++ === 0 ? 'fail' : null,
    );
    let closedAt = -1;
    const link = Object.assign(faulty, {
      close: async () => {
        closedAt = clock.monotonicMs();
      },
    });
    const locks = createLocks(link, { clock });
    const hold = await locks.mutex('a').acquire();
    const released = outcomeOf(hold.release());
    const closing = outcomeOf(locks.close());
    await clock.advance(10_000);
    expect([released.value, closing.state]).toEqual([true, 'kept']);
    expect(closedAt).toBeGreaterThan(0);
    expect(closedAt).toBeLessThanOrEqual(200);
  });

  it('rejects an acquire whose first claim was pending and was then refused', async () => {
    const { locks: others, store, clock } = makeWorld();
    await others().mutex('a').acquire();
    const network = new ManualNetwork(store);
    const link = network.connect('p');
    const [one, keeper] = [createLocks(link, { clock }), createLocks(link, { clock })];
    const acquiring = outcomeOf(one.mutex('a').acquire({ waitMs: Number.POSITIVE_INFINITY }));
    await clock.settle();
    const closing = outcomeOf(one.close());
    for (let turn = 0; turn < 50; turn += 1) {
      while (network.messages.length > 0) network.take(0).deliver();
      await clock.advance(100);
    }
    expect(codeOf(acquiring.error)).toBe('CLOSED');
    expect(closing.state).toBe('kept');
    expect(await store.read('a')).toHaveLength(1);
    await keeper.close();
  });
});

describe('inspecting', () => {
  it('shows every use by the name of the user, and accepts it with the use', async () => {
    const { locks } = makeWorld();
    const one = locks();
    await one.once('job', () => 1);
    await one.rateLimit('job', { permits: 3, perMs: 1_000 }).take();
    const hold = await one.mutex('job').acquire();
    const other = await one.mutex('unrelated').acquire();
    const seen: string[] = [];
    for await (const { use, name, done, holders } of one.list('jo'))
      seen.push(`${use} ${name} ${done} ${holders.length}`);
    expect(seen.sort()).toEqual(['lock job false 1', 'once job true 0', 'rateLimit job false 1']);
    const all: string[] = [];
    for await (const { name } of one.list()) all.push(name);
    expect(all.sort()).toEqual(['job', 'job', 'job', 'unrelated']);
    const [taken] = (await one.inspect('job', { use: 'rateLimit' })).holders;
    expect(await one.evict('job', { id: taken?.id ?? '' })).toBe(false);
    expect(await one.evict('job', { id: taken?.id ?? '' }, { use: 'rateLimit' })).toBe(true);
    expect(await one.inspect('job', { use: 'once' })).toMatchObject({ done: true, holders: [] });
    await expect(one.inspect('job', { use: 'other' as 'once' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    await Promise.all([hold.release(), other.release()]);
  });

  it('forgets a finished run, and nothing else', async () => {
    const { locks, clock } = makeWorld();
    const one = locks();
    await one.once('job', () => 1);
    expect(await one.once('job', () => 2)).toEqual({ ran: false, why: 'done' });
    expect(await one.forget('job')).toBe(true);
    expect(await one.forget('job')).toBe(false);
    const running = outcomeOf(one.once('job', () => clock.sleep(1_000)));
    await clock.settle();
    expect(await one.forget('job')).toBe(false);
    await clock.advance(1_000);
    expect(running.state).toBe('kept');
  });

  it('does not hang on a store that is silent', async () => {
    const { store, clock } = makeWorld();
    const silent = { next: () => new Promise<never>(() => {}) };
    const link = Object.assign(
      faultyStore(store, () => null),
      { list: () => ({ [Symbol.asyncIterator]: () => silent }) },
    );
    const listed = outcomeOf(
      (async () => {
        for await (const view of createLocks(link, { clock }).list()) expect.fail(view.name);
      })(),
    );
    await clock.advance(10_000);
    expect(codeOf(listed.error)).toBe('STORE');
  });
});

describe('short durations', () => {
  it('work for holds and for windows', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 1 });
    expect(hold.remainingMs).toBeGreaterThan(0);
    await clock.advance(1);
    expect(hold.remainingMs).toBe(0);
    expect(await locks().rateLimit('r', { permits: 1, perMs: 1 }).tryTake()).toBe(true);
  });

  it('of a rate limit do not depend on renewals or on the round trip', async () => {
    const { store, clock } = makeWorld();
    const slow = Object.assign(
      faultyStore(store, () => null),
      {
        claim: async (request: Parameters<typeof store.claim>[0]) => {
          await new Promise<void>((resolve) => void clock.startTimer(50, resolve));
          return await store.claim(request);
        },
      },
    );
    const taken = outcomeOf(
      createLocks(slow, { clock, renewEveryMs: 5_000 }).rateLimit('r', { permits: 1, perMs: 20 }).take(),
    );
    await clock.advance(100);
    expect(taken.state).toBe('kept');
  });

  it('between renewals are as set, within safe bounds', async () => {
    const { faulty, clock } = makeWorld();
    const { locks, store } = faulty(() => null);
    await locks.mutex('a').acquire({ ttlMs: 30_000, renewEveryMs: 20_000 });
    await clock.advance(61_000);
    expect(store.calls.filter((call) => call.verb === 'renew')).toHaveLength(3);
  });
});

describe('all', () => {
  it('reports for each lock how long it was waited for', async () => {
    const { locks, clock } = makeWorld();
    const blocker = await locks().mutex('a').acquire();
    const mine = locks();
    const waited: Record<string, number> = {};
    mine.on('acquired', ({ name, waitedMs }) => {
      waited[name] = waitedMs;
    });
    const waiting = mine.all(['a', 'b']).acquire();
    await clock.advance(3_000);
    await blocker.release();
    await waiting;
    expect(waited).toEqual({ a: 3_000, b: 0 });
  });

  it('reports the length of the whole wait, does not hang on a release, and cannot be copied', async () => {
    const { locks, clock } = makeWorld();
    const [first, second] = [await locks().mutex('a').acquire(), await locks().mutex('b').acquire()];
    const waiting = outcomeOf(locks().all(['a', 'b']).acquire({ waitMs: 5_000 }));
    await clock.advance(4_000);
    await first.release();
    await clock.advance(1_100);
    expect(waiting.error).toMatchObject({ lock: 'b', waitedMs: 5_000 });
    await second.release();
    const hold = await locks().all(['a', 'b']).acquire();
    expect(() => structuredClone(hold)).toThrow(/could not be cloned/);
    expect(JSON.parse(JSON.stringify(hold))).toMatchObject({ names: ['a', 'b'] });
  });

  it('acquires in the order of the bytes of the names, as programs in other languages do', async () => {
    const { locks } = makeWorld();
    const hold = await locks().all(['\u{1f512}', '\uffee', 'a']).acquire();
    expect(hold.names).toEqual(['a', '\uffee', '\u{1f512}']);
  });
});

describe('the memory store', () => {
  it('grants the next claim when a hold by handoff expires early', async () => {
    const { locks, clock } = makeWorld();
    const first = await locks().mutex('a').acquire({ ttlMs: 30_000, renew: false });
    const second = locks().mutex('a').acquire({ ttlMs: 1_000, renew: false });
    await clock.settle();
    const third = outcomeOf(locks().mutex('a').acquire({ waitMs: 60_000 }));
    await clock.settle();
    await first.release();
    await second;
    await clock.advance(1_010);
    expect(third.state).toBe('kept');
  });
});
