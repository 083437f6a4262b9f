import { describe, expect, it } from 'vitest';
import { createLocks, memoryStore } from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { sessionStore } from '../support/memory/session-store.ts';
import { outcomeOf } from '../support/memory/world.ts';

function makeSessions() {
  const clock = virtualClock();
  const inner = memoryStore({ clock });
  const session = () => {
    const store = sessionStore(inner);
    return { store, locks: createLocks(store, { clock }) };
  };
  return { clock, inner, session };
}

describe('on a session store', () => {
  it('a hold is kept by renewals that ask for the deadline of the heartbeat', async () => {
    const { clock, session } = makeSessions();
    const hold = await session().locks.mutex('a').acquire({ ttlMs: 60_000 });
    expect(hold.remainingMs).toBeLessThanOrEqual(5_000);
    await clock.advance(60_000);
    hold.assertHeld();
  });

  it('a broken session loses the hold at once, with how: session', async () => {
    const { clock, session } = makeSessions();
    const { store, locks } = session();
    const hold = await locks.mutex('a').acquire();
    const { signal } = hold;
    await clock.settle();
    await store.breakSession();
    await clock.settle();
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ how: 'session' });
  });

  it('a hold that was evicted is released too, so that the store keeps nothing of it', async () => {
    const { clock, inner, session } = makeSessions();
    const { store, locks } = session();
    const released: string[] = [];
    const { release, renew } = store;
    store.renew = async (ref, change, signal) => {
      const outcome = await renew.call(store, ref, change, signal);
      return outcome.held ? outcome : { held: false, how: 'taken' };
    };
    store.release = async (ref, signal) => {
      released.push(ref.id);
      return await release.call(store, ref, signal);
    };
    const hold = await locks.mutex('a').acquire();
    await inner.evict({ name: 'a', id: hold.id });
    await clock.advance(5_000);
    expect(hold.remainingMs).toBe(0);
    expect(released).toEqual([hold.id]);
  });

  it('the core itself ends an unrenewed hold, by releasing it', async () => {
    const { clock, session, inner } = makeSessions();
    const hold = await session().locks.mutex('a').acquire({ ttlMs: 2_000, renew: false });
    const next = outcomeOf(session().locks.mutex('a').acquire());
    const { signal } = hold;
    await clock.advance(1_999);
    expect([signal.aborted, next.state]).toEqual([false, 'pending']);
    await clock.advance(10);
    expect([signal.aborted, next.state]).toEqual([true, 'kept']);
    expect(await inner.read('a')).toHaveLength(1);
  });

  it('an unrenewed hold lasts for its TTL, however soon the session has to be confirmed', async () => {
    const { clock, session } = makeSessions();
    const hold = await session().locks.mutex('a').acquire({ ttlMs: 30_000, renew: false });
    const next = outcomeOf(session().locks.mutex('a').acquire({ waitMs: 60_000 }));
    await clock.advance(29_990);
    hold.assertHeld();
    expect(next.state).toBe('pending');
    await clock.advance(20);
    expect([hold.remainingMs, next.state]).toEqual([0, 'kept']);
  });

  it('the core itself ends a hold at maxHoldMs, by releasing it', async () => {
    const { clock, session } = makeSessions();
    const hold = await session().locks.mutex('a').acquire({ maxHoldMs: 7_000 });
    await clock.advance(6_990);
    hold.assertHeld();
    const next = outcomeOf(session().locks.mutex('a').acquire());
    await clock.advance(20);
    expect(hold.remainingMs).toBe(0);
    expect(next.state).toBe('kept');
  });

  it('an extension moves the end of an unrenewed hold', async () => {
    const { clock, session } = makeSessions();
    const hold = await session().locks.mutex('a').acquire({ ttlMs: 2_000, renew: false });
    await clock.advance(1_500);
    await hold.extend(2_000);
    await clock.advance(1_900);
    hold.assertHeld();
    await clock.advance(200);
    expect(hold.remainingMs).toBe(0);
  });

  it('an extension can also bring the end of an unrenewed hold nearer', async () => {
    const { clock, session } = makeSessions();
    const hold = await session().locks.mutex('a').acquire({ ttlMs: 60_000, renew: false });
    const next = outcomeOf(session().locks.mutex('a').acquire({ waitMs: 60_000 }));
    const { signal } = hold;
    await hold.extend(500);
    await clock.advance(490);
    expect([signal.aborted, next.state]).toEqual([false, 'pending']);
    await clock.advance(20);
    expect([signal.aborted, next.state]).toEqual([true, 'kept']);
  });

  it('an extended hold lasts for its TTL although the wall clock was set forward before', async () => {
    const { clock, session } = makeSessions();
    const hold = await session().locks.mutex('a').acquire({ ttlMs: 4_000, renew: false });
    clock.jumpWall(3_000);
    await hold.extend(3_000);
    await clock.advance(2_900);
    hold.assertHeld();
    await clock.advance(200);
    expect(hold.remainingMs).toBe(0);
  });

  it('once and rate limits are refused', async () => {
    const { session } = makeSessions();
    const { locks } = session();
    await expect(locks.once('a', () => {})).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    expect(() => locks.rateLimit('a', { permits: 1, perMs: 1_000 })).toThrow(/no rate limits/);
  });
});
