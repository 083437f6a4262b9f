import { describe, expect, it } from 'vitest';
import { type ClaimOutcome, createLocks, type Store, StoreError } from '../../src/index.ts';
import { connectionTo } from '../support/memory/memory-connection.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';

/** Rejects when the signal aborts. `sent`: whether the request has left the process by then. */
function whenAbandoned(signal: AbortSignal | undefined, sent: () => boolean): Promise<never> {
  return new Promise((_, reject) => {
    signal?.addEventListener('abort', () =>
      reject(new StoreError('given up', { applied: sent() ? 'unknown' : 'no' })),
    );
  });
}

describe('a claim', () => {
  it('that was not sent when its caller aborted is never sent, and nothing is released', async () => {
    const { clock, store } = makeWorld();
    const calls: string[] = [];
    const disconnected: Store = Object.assign(connectionTo(store), {
      claim: (_request: unknown, signal?: AbortSignal) => {
        calls.push('claim');
        return whenAbandoned(signal, () => false).catch((error: unknown) => {
          calls.push('dropped');
          throw error;
        });
      },
      release: async () => {
        calls.push('release');
        return false;
      },
    });
    const locks = createLocks(disconnected, { clock });
    const controller = new AbortController();
    const acquired = outcomeOf(locks.mutex('a').acquire({ signal: controller.signal }));
    await clock.advance(10);
    controller.abort(new Error('left'));
    await clock.settle();
    expect(calls).toEqual(['claim', 'dropped']);
    await clock.advance(120_000);
    expect(acquired).toMatchObject({ state: 'broken', error: { message: 'left' } });
    expect(calls).toEqual(['claim', 'dropped']);
  });

  it('that reaches the server after its release is still removed', async () => {
    const { clock, store, locks: others } = makeWorld();
    let arrive = async (): Promise<void> => {};
    const slow: Store = Object.assign(connectionTo(store), {
      // The request is in flight until `arrive`; its answer is lost.
      claim: (...[request, signal]: Parameters<Store['claim']>): Promise<ClaimOutcome> => {
        arrive = async () => void (await store.claim(request));
        return whenAbandoned(signal, () => true);
      },
    });
    const locks = createLocks(slow, { clock });
    const controller = new AbortController();
    const acquired = outcomeOf(locks.mutex('a').acquire({ signal: controller.signal, ttlMs: 60_000 }));
    await clock.advance(10);
    controller.abort();
    await clock.advance(1_000);
    expect(acquired.state).toBe('broken');
    await arrive();
    expect(await store.read('a')).toHaveLength(1);
    await clock.advance(6_000);
    expect(await store.read('a')).toEqual([]);
    const next = outcomeOf(others().mutex('a').acquire());
    await clock.advance(1);
    expect(next.state).toBe('kept');
  });
});

describe('while the store fails', () => {
  it('a thousand abandoned claims cost a few tries at a time, and none is left afterwards', async () => {
    const { clock, store } = makeWorld();
    let isDown = false;
    let releases = 0;
    const unreliable: Store = Object.assign(connectionTo(store), {
      claim: async (...args: Parameters<Store['claim']>): Promise<ClaimOutcome> => {
        const outcome = await store.claim(...args);
        if (isDown) throw new StoreError('the answer was lost', { applied: 'unknown' });
        return outcome;
      },
      release: async (...args: Parameters<Store['release']>): Promise<boolean> => {
        releases += 1;
        if (isDown) throw new StoreError('out of reach', { applied: 'no' });
        return await store.release(...args);
      },
    });
    const locks = createLocks(unreliable, { clock });
    isDown = true;
    const tries = Array.from({ length: 1_000 }, (_, n) =>
      outcomeOf(locks.mutex(`lock ${n}`).tryAcquire({ ttlMs: 300_000 })),
    );
    await clock.advance(1);
    expect(new Set(tries.map(({ state }) => state))).toEqual(new Set(['broken']));
    const before = releases;
    await clock.advance(60_000);
    expect(releases - before).toBeLessThan(60 * 16);
    isDown = false;
    await clock.advance(10_000);
    const names: string[] = [];
    for await (const name of store.list('lock ')) names.push(name);
    expect(names).toEqual([]);
  });
});

describe('a waiter that gives up while the store fails', () => {
  it('is dropped by the store at once, however many releases have failed', async () => {
    const { clock, store } = makeWorld();
    let isDown = false;
    const waiting = new Set<string>();
    const sent: string[] = [];
    const unreliable: Store = Object.assign(connectionTo(store), {
      claim: async (...[request, signal, waiter]: Parameters<Store['claim']>): Promise<ClaimOutcome> => {
        waiting.add(request.id);
        return await store.claim(request, signal, waiter);
      },
      release: async (...[claim, signal]: Parameters<Store['release']>): Promise<boolean> => {
        waiting.delete(claim.id);
        if (signal?.aborted === true) throw new StoreError('abandoned', { applied: 'no' });
        sent.push(claim.id);
        if (isDown) return await whenAbandoned(signal, () => true);
        return await store.release(claim, signal);
      },
    });
    await createLocks(store, { clock }).mutex('a').acquire({ ttlMs: 60_000 });
    const locks = createLocks(unreliable, { clock });
    const acquired = Array.from({ length: 100 }, (_, n) =>
      // The release of the first one has failed when the others give up.
      outcomeOf(locks.mutex('a').acquire({ waitMs: n === 0 ? 1_000 : 4_000 })),
    );
    await clock.advance(500);
    expect(waiting.size).toBe(100);
    isDown = true;
    await clock.advance(3_600);
    expect(new Set(acquired.map(({ state }) => state))).toEqual(new Set(['broken']));
    expect(sent.length).toBeLessThan(100);
    expect(waiting.size).toBe(0);
  });
});

describe('a store whose release throws instead of rejecting', () => {
  it('does not replace the error of the acquire', async () => {
    const { clock, store } = makeWorld();
    const unreliable: Store = Object.assign(connectionTo(store), {
      claim: async () => {
        throw new StoreError('the answer was lost', { applied: 'unknown' });
      },
      release: () => {
        throw new TypeError('no connection');
      },
    });
    const locks = createLocks(unreliable, { clock });
    // The first ones fail, and then there is no room for the others.
    const tryAll = async (): Promise<unknown[]> =>
      (await Promise.allSettled(Array.from({ length: 40 }, () => locks.mutex('a').tryAcquire()))).map(
        (each) => (each.status === 'rejected' ? String(each.reason) : null),
      );
    const [first, second] = [await tryAll(), await tryAll()];
    await clock.advance(1_000);
    for (const error of [...first, ...second]) expect(error).toContain('the answer was lost');
  });
});

describe('a wait', () => {
  it('sends one claim, and none when it is granted by a wake-up', async () => {
    const { locks, faulty, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    const { locks: waiting, store } = faulty(() => null);
    const next = outcomeOf(waiting.mutex('a').acquire());
    await clock.advance(1);
    await hold.release();
    await clock.advance(1);
    expect(next.state).toBe('kept');
    expect(store.calls.map(({ verb }) => verb)).toEqual(['claim']);
  });
});
