import { describe, expect, it } from 'vitest';
import { AcquireTimeoutError, createLocks, type Hold, type StoreError } from '../../src/index.ts';
import { connectionTo } from '../support/memory/memory-connection.ts';
import { codeOf, makeWorld, outcomeOf } from '../support/memory/world.ts';

describe('acquire', () => {
  it('resolves to a hold with a name, an id, a fence and a validity', async () => {
    const { locks } = makeWorld();
    const hold = await locks({ owner: 'me' }).mutex('a').acquire({ ttlMs: 1_000 });
    expect(hold.name).toBe('a');
    expect(hold.id).toMatch(/^me#/);
    expect(hold.fence).toBeGreaterThan(0n);
    expect(hold.remainingMs).toBeCloseTo(1_000 - 10 - 2, 5);
  });

  it('sends one claim for a free lock, and one release', async () => {
    const { faulty } = makeWorld();
    const { locks, store } = faulty(() => null);
    await (await locks.mutex('a').acquire()).release();
    expect(store.calls.map((call) => call.verb)).toEqual(['claim', 'release']);
  });

  it('grants the lock to the next waiter at the instant of the release', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    const next = outcomeOf(locks().mutex('a').acquire());
    await clock.settle();
    expect(next.state).toBe('pending');
    await hold.release();
    await clock.settle();
    expect(next.state).toBe('kept');
    expect(next.value?.fence).toBeGreaterThan(hold.fence);
  });

  it('does not miss a release that comes before the answer to its claim', async () => {
    const { locks, store, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    const slow = connectionTo(store);
    slow.claim = async (...args) => {
      const outcome = await store.claim(...args);
      await hold.release();
      return outcome;
    };
    const other = createLocks(slow, { clock });
    const next = outcomeOf(other.mutex('a').acquire());
    await clock.advance(1);
    expect(next.state).toBe('kept');
  });

  it('keeps its queue position for as long as it waits', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    const order: string[] = [];
    const stand = (who: string): Promise<void> =>
      locks()
        .mutex('a')
        .run(() => void order.push(who), { waitMs: 600_000, ttlMs: 1_000 });
    const first = stand('first');
    await clock.advance(25_000);
    const second = stand('second');
    // By now a queue position that was not kept alive would have been lost, and taken again behind
    // the second.
    await clock.advance(20_000);
    await hold.release();
    await clock.advance(1_000);
    expect(order).toEqual(['first', 'second']);
    await Promise.all([first, second]);
  });

  it('does not poll while it waits for a holder that renews', async () => {
    const { locks, faulty, clock } = makeWorld();
    await locks().mutex('a').acquire();
    const { locks: other, store } = faulty(() => null);
    const waiting = outcomeOf(other.mutex('a').acquire({ waitMs: 60_000 }));
    await clock.advance(50_000);
    expect(waiting.state).toBe('pending');
    expect(store.calls.filter((call) => call.verb === 'claim').length).toBeLessThanOrEqual(10);
  });

  it('times out with the holder, its age and host, and our position', async () => {
    const { locks, clock } = makeWorld();
    await locks({ owner: 'web-1:77', metadata: { job: 'invoice' } })
      .mutex('a')
      .acquire();
    await clock.advance(4_000);
    const first = locks().mutex('a').acquire({ waitMs: 60_000 });
    first.catch(() => {});
    await clock.settle();
    const second = outcomeOf(locks().mutex('a').acquire({ waitMs: 2_000 }));
    await clock.advance(2_000);
    const error = second.error as AcquireTimeoutError;
    expect(error).toBeInstanceOf(AcquireTimeoutError);
    expect(error).toMatchObject({
      code: 'ACQUIRE_TIMEOUT',
      name: 'AcquireTimeoutError',
      lock: 'a',
      waitedMs: 2_000,
      position: 2,
    });
    expect(error.holders).toHaveLength(1);
    expect(error.holders[0]).toMatchObject({
      owner: 'web-1:77',
      heldForMs: 6_000,
      metadata: { job: 'invoice' },
    });
    expect(error.message).toContain('"web-1:77" for 6.0 s');
  });

  it('leaves nothing in the queue after a time-out', async () => {
    const { locks, clock, store } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    const late = outcomeOf(locks().mutex('a').acquire({ waitMs: 100 }));
    await clock.advance(100);
    expect(codeOf(late.error)).toBe('ACQUIRE_TIMEOUT');
    expect((await store.read('a')).map((claim) => claim.id)).toEqual([hold.id]);
  });

  it('with waitMs 0 tries exactly once', async () => {
    const { locks, faulty } = makeWorld();
    await locks().mutex('a').acquire();
    const { locks: other, store } = faulty(() => null);
    await expect(other.mutex('a').acquire({ waitMs: 0 })).rejects.toMatchObject({ code: 'ACQUIRE_TIMEOUT' });
    expect(store.calls.filter((call) => call.verb === 'claim')).toHaveLength(1);
  });

  it('waits for ever with waitMs Infinity', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    const next = outcomeOf(locks().mutex('a').acquire({ waitMs: Number.POSITIVE_INFINITY }));
    await clock.advance(3_600_000);
    expect(next.state).toBe('pending');
    await hold.release();
    await clock.settle();
    expect(next.state).toBe('kept');
  });

  it('acquires the lock of a dead holder at the end of its lease', async () => {
    const { locks, clock } = makeWorld();
    await locks().mutex('a').acquire({ ttlMs: 2_000, renew: false });
    const next = outcomeOf(locks().mutex('a').acquire());
    await clock.advance(1_999);
    expect(next.state).toBe('pending');
    await clock.advance(10);
    expect(next.state).toBe('kept');
  });

  it('asks a store that has failed again soon, whatever retryAfterMs said before', async () => {
    const { locks, faulty, clock } = makeWorld();
    await locks().mutex('a').acquire();
    let claims = 0;
    const { locks: other } = faulty((call) => {
      if (call.verb !== 'claim') return null;
      claims += 1;
      return claims === 2 ? 'fail' : null;
    });
    const waiting = outcomeOf(other.mutex('a').acquire({ waitMs: 60_000 }));
    // The second claim keeps the queue position, and fails.
    await clock.advance(12_000);
    expect([waiting.state, claims]).toEqual(['pending', 3]);
  });

  it('polls within the given bounds when the store cannot wake waiters', async () => {
    const { locks, store, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    const deaf = connectionTo(store);
    deaf.claim = async (request, signal) => ({ ...(await store.claim(request, signal)), retryAfterMs: null });
    const other = createLocks(deaf, { clock, pollMs: { min: 20, max: 200 } });
    const next = outcomeOf(other.mutex('a').acquire());
    await clock.advance(1_000);
    await hold.release();
    await clock.advance(201);
    expect(next.state).toBe('kept');
  });

  it('rejects when the store definitely refuses', async () => {
    const { locks } = makeWorld();
    await locks().semaphore('a', { permits: 2 }).acquire();
    await expect(locks().mutex('a').acquire()).rejects.toMatchObject({ code: 'MODE_MISMATCH' });
    await expect(locks().mutex('a').tryAcquire()).rejects.toMatchObject({ code: 'MODE_MISMATCH' });
  });

  it('rejects at once when the queue is full', async () => {
    const { createLocks, memoryStore } = await import('../../src/index.ts');
    const locks = createLocks(memoryStore({ queueMax: 1 }));
    const hold = await locks.mutex('a').acquire();
    const waiting = locks.mutex('a').acquire();
    await expect(locks.mutex('a').acquire()).rejects.toMatchObject({
      code: 'QUEUE_FULL',
      lock: 'a',
      queueMax: 1,
    });
    await hold.release();
    await (await waiting).release();
  });
});

describe('acquire while the store fails', () => {
  it('retries until the store is back', async () => {
    const { faulty, clock } = makeWorld();
    const { locks } = faulty((call) => (call.n <= 4 ? 'refuse' : null));
    const hold = outcomeOf(locks.mutex('a').acquire());
    await clock.advance(5_000);
    expect(hold.state).toBe('kept');
  });

  it('rejects with the last failure when the wait times out', async () => {
    const { faulty, clock } = makeWorld();
    const { locks } = faulty(() => 'refuse');
    const hold = outcomeOf(locks.mutex('a').acquire({ waitMs: 1_000 }));
    await clock.advance(1_200);
    expect(hold.error).toMatchObject({ code: 'STORE', applied: 'no' });
  });

  it('rejects with a time-out when the last answer was "held"', async () => {
    const { locks, faulty, clock } = makeWorld();
    await locks().mutex('a').acquire();
    const { locks: other } = faulty((call) => (call.n <= 2 ? 'fail' : null));
    const hold = outcomeOf(other.mutex('a').acquire({ waitMs: 3_000 }));
    await clock.advance(3_200);
    expect(codeOf(hold.error)).toBe('ACQUIRE_TIMEOUT');
  });

  it('never takes its own claim for a foreign one when the reply was lost', async () => {
    const { faulty, clock } = makeWorld();
    const { locks } = faulty((call) => (call.n === 1 ? 'lose' : null));
    const hold = outcomeOf(locks.mutex('a').acquire());
    await clock.advance(1_000);
    expect(hold.state).toBe('kept');
  });

  it('gives every command a time limit, and releases a claim that was granted unknown to it', async () => {
    const { faulty, clock, store } = makeWorld();
    const { locks } = faulty((call) => (call.verb === 'claim' ? 'hang' : null));
    const hold = outcomeOf(locks.mutex('a').tryAcquire());
    await clock.advance(5_500);
    expect(hold.error).toMatchObject({ code: 'STORE', applied: 'unknown' });
    await clock.advance(1_000);
    expect(await store.read('a')).toEqual([]);
  });

  it('tryAcquire reports an unknown outcome instead of "held", and leaves nothing behind', async () => {
    const { faulty, clock, store } = makeWorld();
    const { locks } = faulty((call) => (call.n === 1 ? 'lose' : null));
    const hold = outcomeOf(locks.mutex('a').tryAcquire());
    await clock.advance(100);
    expect((hold.error as StoreError).applied).toBe('unknown');
    expect(await store.read('a')).toEqual([]);
  });

  it('works with a store that throws errors of its own', async () => {
    const { createLocks, memoryStore } = await import('../../src/index.ts');
    const broken = Object.assign(memoryStore(), {
      claim: () => {
        throw new TypeError('boom');
      },
    });
    const error = await createLocks(broken)
      .mutex('a')
      .tryAcquire()
      .catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: 'STORE', applied: 'unknown', cause: expect.any(TypeError) });
  });

  it('recovers for every n when the n-th call fails in any way, and leaves nothing behind', async () => {
    for (const fault of ['refuse', 'fail', 'lose', 'hang'] as const) {
      for (let n = 1; n <= 6; n += 1) {
        const { locks, faulty, clock, store } = makeWorld();
        const blocker = await locks().mutex('a').acquire();
        const { locks: other } = faulty((call) => (call.n === n ? fault : null));
        const work = outcomeOf(
          other
            .mutex('a')
            .acquire({ waitMs: 30_000 })
            .then((hold: Hold) => hold.release()),
        );
        await clock.advance(500);
        await blocker.release();
        await clock.advance(25_000);
        expect(work, `${fault} at call ${n}`).toMatchObject({ state: 'kept' });
        await clock.advance(60_000);
        expect(await store.read('a'), `${fault} at call ${n}`).toEqual([]);
      }
    }
  });
});

it('a waiter gets the lock when a lease ends that was shortened meanwhile', async () => {
  const { locks, clock } = makeWorld();
  const hold = await locks().mutex('a').acquire({ ttlMs: 30_000, renew: false });
  const next = outcomeOf(locks().mutex('a').acquire({ waitMs: 60_000 }));
  await clock.advance(100);
  await hold.extend(1_000);
  await clock.advance(1_010);
  expect(next.state).toBe('kept');
});
