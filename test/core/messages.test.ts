import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { createLocks, type HoldLostError, type Store } from '../../src/index.ts';
import { makeWorld, outcomeOf } from '../support/world.ts';

const messageOf = (outcome: { error?: unknown }): string => (outcome.error as Error).message;

/** What `use` throws, for people. */
function refusalOf(use: () => unknown): string {
  try {
    use();
  } catch (error) {
    return String(error);
  }
  return 'nothing was thrown';
}

describe('the text of a time-out', () => {
  it('says that a lock waits for itself, and what to do about it', async () => {
    const { locks, clock } = makeWorld();
    const own = locks({ owner: 'web-1' });
    const deadlock = outcomeOf(
      own.withLock('a', () => own.withLock('a', () => {}, { waitMs: 500 }), { waitMs: 500 }),
    );
    await clock.advance(1_000);
    expect(messageOf(deadlock)).toContain(
      'held by this process itself (see the option reentrant), "web-1" for 500 ms',
    );
  });

  it('does not take another Locks of the same owner for itself', async () => {
    const { locks, clock } = makeWorld();
    await locks({ owner: 'web' }).mutex('a').acquire();
    const other = locks({ owner: 'web' });
    await other.mutex('b').acquire();
    const waiting = outcomeOf(other.mutex('a').acquire({ waitMs: 500 }));
    await clock.advance(1_000);
    expect(messageOf(waiting)).toContain('held by "web" for');
  });

  it('names a rate limit as its user did, and does not point to an option that it does not have', async () => {
    const { locks, clock } = makeWorld();
    const limit = locks({ owner: 'web' }).rateLimit('mail', { permits: 1, perMs: 60_000 });
    await limit.take();
    const waiting = outcomeOf(limit.take(1, { waitMs: 200 }));
    await clock.advance(1_000);
    expect(messageOf(waiting)).toMatch(/^Waited 200 ms for lock "mail"; held by "web" for/);
  });
});

describe('the text of a loss', () => {
  it('is true of maxHoldMs too', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ maxHoldMs: 1_000 });
    await clock.advance(2_000);
    expect((hold.signal.reason as HoldLostError).message).toBe(
      'Lock "a" is not held any more: its time ran out',
    );
  });

  it('names a once as its user did', async () => {
    const { locks, clock } = makeWorld();
    const run = outcomeOf(
      locks().once('job', (hold) => clock.advance(2_000).then(() => hold.name), { maxHoldMs: 1_000 }),
    );
    await clock.advance(5_000);
    expect(messageOf(run)).toBe('Lock "job" is not held any more: its time ran out');
  });
});

describe('the text of a refused argument', () => {
  it('says what was got instead of a store, and repeats no URL', () => {
    const make = (store: unknown) => () => createLocks(store as Store);
    expect(refusalOf(make(undefined))).toContain('must be a store, not a URL; got undefined');
    expect(refusalOf(make({}))).toContain('got object');
    expect(refusalOf(make('redis://:secret@host'))).toMatch(/got string$/);
  });

  it('says what was got instead of names', () => {
    const { locks } = makeWorld();
    expect(refusalOf(() => locks().all([]))).toContain(
      'names must be a list of at least one name; got a list of 0',
    );
  });
});

describe('console.log', () => {
  it('shows a hold as its JSON', async () => {
    const { locks } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 1_000 });
    expect(inspect(hold)).toBe(inspect({ name: 'a', id: hold.id, fence: `${hold.fence}`, remainingMs: 988 }));
  });

  it('shows a hold on several locks as its JSON', async () => {
    const { locks } = makeWorld();
    const hold = await locks().all(['a', 'b']).acquire({ ttlMs: 1_000 });
    expect(inspect(hold)).toBe(inspect({ names: ['a', 'b'], id: hold.id, remainingMs: 988 }));
  });
});
