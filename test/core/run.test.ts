import { describe, expect, it } from 'vitest';
import type { Hold } from '../../src/index.ts';
import { codeOf, makeWorld, outcomeOf } from '../support/memory/world.ts';

describe('run', () => {
  it('returns what the function returns, and releases', async () => {
    const { locks, store } = makeWorld();
    const result = await locks().withLock('a', async (hold: Hold) => {
      expect((await store.read('a'))[0]?.id).toBe(hold.id);
      return 42;
    });
    expect(result).toBe(42);
    expect(await store.read('a')).toEqual([]);
  });

  it('rejects with the error of the function, with a failed release attached', async () => {
    const { locks, faulty, clock, store } = makeWorld();
    await expect(locks().withLock('a', () => Promise.reject(new TypeError('mine')))).rejects.toThrow(
      TypeError,
    );
    expect(await store.read('a')).toEqual([]);
    const { locks: failing } = faulty((call) => (call.verb === 'release' ? 'refuse' : null));
    const run = outcomeOf(failing.withLock('a', () => Promise.reject(new TypeError('mine'))));
    await clock.advance(6_000);
    expect(run.error).toBeInstanceOf(TypeError);
    expect(codeOf((run.error as { releaseError?: unknown }).releaseError)).toBe('STORE');
  });

  it('rejects with the error of the function also when the hold was lost, or it is frozen', async () => {
    const { locks, store } = makeWorld();
    for (const mine of [new TypeError('mine'), Object.freeze(new Error('frozen')), 'text', undefined]) {
      const error = await locks()
        .withLock('a', async (hold: Hold) => {
          await store.evict(hold);
          throw mine;
        })
        .catch((caught: unknown) => caught);
      expect(error).toBe(mine);
    }
  });

  it('rejects with a HoldLostError that has the value when the hold was lost before the end', async () => {
    const { locks, clock } = makeWorld();
    const run = outcomeOf(
      locks().withLock(
        'a',
        async (hold: Hold) => {
          await clock.advance(1_100);
          expect(hold.signal.aborted).toBe(true);
          return 'done';
        },
        { ttlMs: 1_000, renew: false },
      ),
    );
    await clock.advance(0);
    for (let turn = 0; turn < 20; turn += 1) await clock.settle();
    expect(run.error).toMatchObject({ code: 'HOLD_LOST', how: 'expired', value: 'done', lock: 'a' });
  });

  it('rejects with a HoldLostError that has the value when the release finds the claim gone', async () => {
    const { locks, store } = makeWorld();
    const run = locks().withLock('a', async (hold: Hold) => {
      await store.evict(hold);
      return 7;
    });
    await expect(run).rejects.toMatchObject({ code: 'HOLD_LOST', how: 'taken', value: 7 });
  });

  it('returns the value when only the release failed, and emits an event', async () => {
    const { faulty, clock } = makeWorld();
    const { locks } = faulty((call) => (call.verb === 'release' ? 'refuse' : null));
    let failures = 0;
    locks.on('releaseFailed', () => {
      failures += 1;
    });
    const run = outcomeOf(locks.withLock('a', () => 'kept'));
    await clock.advance(6_000);
    expect(run.value).toBe('kept');
    expect(failures).toBe(1);
  });

  it('lets the function release early', async () => {
    const { locks } = makeWorld();
    expect(await locks().withLock('a', async (hold: Hold) => await hold.release())).toBe(true);
  });
});
