import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { createLocks, type HoldLostError, type Store } from '../../src/index.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';

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
  it('says from Node.js 24 on that a lock waits for itself, and what to do about it', async () => {
    const { locks, clock } = makeWorld();
    const own = locks({ owner: 'web-1' });
    const deadlock = outcomeOf(
      own.withLock('a', () => own.withLock('a', () => {}, { waitMs: 500 }), { waitMs: 500 }),
    );
    await clock.advance(1_000);
    const hint =
      Number.parseInt(process.versions.node, 10) >= 24
        ? 'held by the waiting code itself (see the option reentrant), "web-1" for 500 ms'
        : 'held by "web-1" for 500 ms, its lease ends in 29.5 s, in this process';
    expect(messageOf(deadlock)).toContain(hint);
  });

  it('knows that a lock waits for itself where the asynchronous context is tracked', async () => {
    const { locks, clock } = makeWorld();
    const own = locks({ owner: 'web-1' });
    // The module that follows the context is loaded on first use, which takes real time.
    await own.withLock('warm-up', () => {}, { reentrant: true });
    const nested = () => own.withLock('a', () => {}, { waitMs: 500 });
    const deadlock = outcomeOf(own.withLock('a', nested, { waitMs: 500, reentrant: true }));
    await clock.advance(1_000);
    expect(messageOf(deadlock)).toContain(
      'held by the waiting code itself (see the option reentrant), "web-1" for 500 ms',
    );
  });

  it('does not take another call of the same process for the waiting code', async () => {
    const { locks, clock } = makeWorld();
    const own = locks({ owner: 'web-1' });
    await own.withLock('warm-up', () => {}, { reentrant: true });
    const request = outcomeOf(own.withLock('a', () => clock.sleep(5_000), { reentrant: true }));
    const other = outcomeOf(own.withLock('a', () => {}, { waitMs: 500, reentrant: true }));
    await clock.advance(1_000);
    expect(messageOf(other)).not.toContain('reentrant');
    expect(messageOf(other)).toContain('in this process');
    await clock.advance(10_000);
    expect(request.state).toBe('kept');
  });

  it('does not take work that outlives its own hold for the holder', async () => {
    const { locks, clock } = makeWorld();
    const own = locks({ owner: 'web-1' });
    await own.withLock('warm-up', () => {}, { reentrant: true });
    let late: ReturnType<typeof outcomeOf> | null = null;
    const first = (): void => {
      const wait = () => own.withLock('a', () => {}, { waitMs: 500 });
      late = outcomeOf(clock.sleep(100).then(wait));
    };
    await own.withLock('a', first, { reentrant: true });
    const second = outcomeOf(own.withLock('a', () => clock.sleep(5_000), { reentrant: true }));
    await clock.advance(1_000);
    expect(messageOf(late ?? second)).toMatch(/held by "web-1" for .*, in this process$/);
    await clock.advance(10_000);
    expect(second.state).toBe('kept');
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

  it('names a rate limit as its user did, and does not mention an option that it does not have', async () => {
    const { locks, clock } = makeWorld();
    const limit = locks({ owner: 'web' }).rateLimit('mail', { permits: 1, perMs: 60_000 });
    await limit.take();
    const waiting = outcomeOf(limit.take(1, { waitMs: 200 }));
    await clock.advance(1_000);
    expect(messageOf(waiting)).toMatch(/^Waited 200 ms for lock "mail"; held by "web" for/);
  });
});

describe('the text of a loss', () => {
  it('says that the event loop was blocked', async () => {
    const { locks, clock } = makeWorld();
    const own = locks();
    const stalls: unknown[] = [];
    own.on('stalled', ({ name, blockedMs, remainingMs }) => stalls.push({ name, blockedMs, remainingMs }));
    const hold = await own.mutex('a').acquire({ ttlMs: 2_000 });
    await clock.advance(1_000);
    await clock.stall(4_000);
    expect((hold.signal.reason as HoldLostError).message).toMatch(
      new RegExp(
        '^Lock "a" is not held any more: its time ran out ' +
          '\\(the event loop was blocked for 4\\.[01] s, the TTL is 2\\.0 s\\)$',
      ),
    );
    const kept = await own.mutex('b').acquire({ ttlMs: 6_000 });
    await clock.advance(100);
    await clock.stall(3_000);
    expect(kept.remainingMs).toBeGreaterThan(0);
    expect(stalls).toEqual([
      { name: 'a', blockedMs: expect.closeTo(4_000, -3), remainingMs: 0 },
      { name: 'b', blockedMs: expect.closeTo(3_000, -3), remainingMs: expect.any(Number) },
    ]);
  });

  it('says so too in what run, tryRun, withLock and once throw', async () => {
    const { locks, clock } = makeWorld();
    const own = locks({ ttlMs: 2_000 });
    const blocked = async (): Promise<string> => {
      await clock.sleep(1_000);
      await clock.stall(4_000);
      return 'value';
    };
    const calls = [
      own.mutex('a').run(blocked),
      own.withLock('b', blocked),
      own.mutex('c').tryRun(blocked),
      own.all(['d', 'e']).run(blocked),
      own.once('f', blocked),
    ].map((call) => outcomeOf<unknown>(call));
    await clock.advance(1_000);
    await clock.advance(10_000);
    for (const { error } of calls) {
      expect(error).toMatchObject({ code: 'HOLD_LOST', value: 'value' });
      const blame = /\(the event loop was blocked for \d+\.\d s, the TTL is 2\.0 s\)$/;
      expect((error as HoldLostError).message).toMatch(blame);
      expect(JSON.parse(JSON.stringify(error))).toMatchObject({ stall: { ttlMs: 2_000 } });
    }
  });

  it('does not blame a block for the end of a hold that is not renewed', async () => {
    const { locks, clock } = makeWorld();
    const own = locks();
    await own.mutex('renewed').acquire({ ttlMs: 30_000 });
    const hold = await own.mutex('a').acquire({ ttlMs: 2_000, renew: false });
    await clock.advance(1_000);
    await clock.stall(4_000);
    expect((hold.signal.reason as HoldLostError).message).toMatch(/its time ran out$/);
  });

  it('does not blame an event loop that was not blocked, next to a hold with a longer TTL', async () => {
    const { locks, clock } = makeWorld();
    const own = locks();
    const stalls: unknown[] = [];
    own.on('stalled', (event) => stalls.push(event));
    await own.mutex('long').acquire({ ttlMs: 30_000 });
    await clock.advance(300);
    await own.mutex('short').acquire({ ttlMs: 1_000 });
    await clock.advance(5_000);
    expect(stalls).toEqual([]);
    await clock.stall(600);
    expect(stalls).toMatchObject([{ name: 'short', blockedMs: expect.closeTo(600, -3) }]);
  });

  it('is told to a listener that releases the hold, which then is released once', async () => {
    const { locks, clock } = makeWorld();
    const own = locks();
    const hold = await own.mutex('a').acquire({ ttlMs: 6_000 });
    const released: Promise<boolean>[] = [];
    own.on('stalled', () => released.push(hold.release()));
    await clock.advance(100);
    await clock.stall(3_000);
    released.push(hold.release());
    const confirmed = (await Promise.all(released)).filter((isConfirmed) => isConfirmed);
    expect(confirmed).toHaveLength(1);
    expect(released.length).toBeLessThan(5);
  });

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
  it('says what was passed instead of a store, and repeats no URL', () => {
    const make = (store: unknown) => () => createLocks(store as Store);
    expect(refusalOf(make(undefined))).toContain('must be a store; got undefined');
    expect(refusalOf(make('redis://:secret@host'))).toContain('not a URL: use openLocks(url)');
    const client = { sendCommand: () => {}, duplicate: () => {} };
    expect(refusalOf(make(client))).toContain('pass redisStore(client) of holdfast/redis');
    const pool = { query: () => {}, connect: () => {} };
    expect(refusalOf(make(pool))).toContain('pass postgresLeaseStore(pool) of holdfast/postgres');
    const mysqlPool = { query: () => {}, getConnection: () => {} };
    expect(refusalOf(make(mysqlPool))).toContain('pass mysqlStore(pool) of holdfast/mysql');
    expect(refusalOf(make({}))).toContain('got object');
    expect(refusalOf(make('redis://:secret@host'))).toMatch(/got string$/);
  });

  it('says what was passed instead of names', () => {
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
    const { id, owner } = hold;
    expect(inspect(hold)).toBe(
      inspect({
        name: 'a',
        id,
        owner,
        metadata: null,
        heldForMs: 0,
        fence: `${hold.fence}`,
        remainingMs: 988,
      }),
    );
  });

  it('shows a hold on several locks as its JSON', async () => {
    const { locks } = makeWorld();
    const hold = await locks().all(['a', 'b']).acquire({ ttlMs: 1_000 });
    expect(inspect(hold)).toBe(inspect(JSON.parse(JSON.stringify(hold))));
    expect(inspect(hold)).toContain(`a: '${hold.fenceOf('a')}'`);
  });
});
