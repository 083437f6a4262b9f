import { describe, expect, it } from 'vitest';
import { HoldLostError, type LockEvents, QuorumError, StaleFenceError, StoreError } from '../../src/index.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';

/** All of them: the compiler refuses a list that lacks one. */
const EVENTS = Object.keys({
  waiting: 0,
  acquired: 0,
  refused: 0,
  renewed: 0,
  renewFailed: 0,
  lost: 0,
  released: 0,
  releaseFailed: 0,
  evicted: 0,
  leader: 0,
  stalled: 0,
} satisfies Record<keyof LockEvents, 0>) as (keyof LockEvents)[];

const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe('JSON.stringify', () => {
  it('converts views, with fences as text', async () => {
    const { locks } = makeWorld();
    const own = locks({ owner: 'web-1', metadata: { order: 7 } });
    const hold = await own.mutex('a').acquire();
    const view = await own.inspect('a');
    expect(json(view)).toEqual({
      ...view,
      holders: [{ ...view.holders[0], fence: hold.fence.toString() }],
    });
    expect(json(view.holders)).toMatchObject([{ owner: 'web-1', metadata: { order: 7 } }]);
    expect(Object.keys(view)).not.toContain('toJSON');
    expect({ ...view }).toEqual(view);
  });

  it('converts every event, with errors as name, code and message', async () => {
    const { faulty, locks, clock } = makeWorld();
    let failing: string | null = null;
    const { locks: own } = faulty((call) => (call.verb === failing ? 'fail' : null));
    const byName: Partial<Record<string, Record<string, unknown>>> = {};
    for (const name of EVENTS) own.on(name, (event) => (byName[name] = json(event) as never));
    const hold = await own.mutex('a').acquire({ ttlMs: 1_000 });
    outcomeOf(own.mutex('a').acquire({ waitMs: 100 }));
    await clock.advance(500);
    failing = 'renew';
    await clock.advance(2_000);
    failing = null;
    const short = await own.mutex('b').acquire({ ttlMs: 3_000 });
    await clock.advance(100);
    await clock.stall(1_500);
    await own.mutex('c').run(() => {});
    failing = 'release';
    outcomeOf(short.release());
    await clock.advance(10_000);
    failing = null;
    const other = await locks().mutex('d').acquire();
    await own.evict('d', other);
    const candidate = own.election('e').start();
    await clock.settle();
    await candidate.stop();
    expect(Object.keys(byName).sort()).toEqual([...EVENTS].sort());
    expect(byName.waiting).toMatchObject({ name: 'a', waitMs: 100 });
    expect(byName.acquired).toMatchObject({ name: 'e', fence: expect.stringMatching(/^\d+$/) });
    expect(byName.refused).toMatchObject({ error: { name: 'AcquireTimeoutError', code: 'ACQUIRE_TIMEOUT' } });
    expect(byName.renewed).toMatchObject({ tookMs: 0, validForMs: expect.any(Number) });
    expect(byName.renewFailed).toMatchObject({ error: { name: 'StoreError', code: 'STORE' } });
    expect(byName.lost).toMatchObject({ error: { code: 'HOLD_LOST', fence: hold.fence.toString() } });
    expect(byName.stalled).toMatchObject({ name: 'b', blockedMs: expect.any(Number) });
    expect(byName.released).toMatchObject({ heldForMs: expect.any(Number) });
    expect(byName.releaseFailed).toMatchObject({ name: 'b', error: { name: 'StoreError', code: 'STORE' } });
    expect(byName.evicted).toMatchObject({ name: 'd', id: other.id });
    expect(byName.leader).toMatchObject({ name: 'e', fence: expect.stringMatching(/^\d+$/) });
  });

  it('converts an event with whatever reason a wait was aborted with', async () => {
    const { locks, clock } = makeWorld();
    const own = locks();
    await own.mutex('a').acquire();
    const seen: unknown[] = [];
    own.on('refused', (event) => seen.push((json(event) as { error: unknown }).error));
    const circular: { self?: object; deep: object } = { deep: { a: { b: { c: { d: { e: 1n } } } } } };
    circular.self = circular;
    const reasons: unknown[] = [
      circular,
      7n,
      Symbol('stop'),
      { toJSON: () => 7n },
      { toJSON: () => ({ kept: true }) },
      {
        get bad(): never {
          throw new Error('no');
        },
      },
      Object.assign(new Error('odd'), { code: circular, message: 7n }),
      { a: { b: { c: { d: { e: { f: 'deep' } } } } } },
    ];
    for (const reason of reasons) {
      const controller = new AbortController();
      outcomeOf(own.mutex('a').acquire({ signal: controller.signal }));
      await clock.settle();
      controller.abort(reason);
      await clock.settle();
    }
    const unreadable = '[not convertible to JSON]';
    expect(seen).toHaveLength(reasons.length);
    expect(seen[0]).toMatchObject({ deep: { a: { b: { c: unreadable } } } });
    expect(seen.slice(1)).toEqual([
      '7',
      undefined,
      unreadable,
      { kept: true },
      unreadable,
      { name: 'Error', message: '7', code: expect.anything() },
      reasons[7],
    ]);
  });

  it('converts a hold on several locks, with its owner, its metadata and the fence of each', async () => {
    const { locks, clock } = makeWorld();
    const own = locks({ owner: 'web-1' });
    const hold = await own.all(['b', '__proto__']).acquire({ metadata: { order: 7 } });
    await clock.advance(1_500);
    const shown = { id: hold.id, owner: 'web-1', metadata: { order: 7 }, heldForMs: 1_500 };
    expect(json(hold)).toMatchObject(shown);
    expect(JSON.stringify(hold)).toContain(
      `"fences":{"__proto__":"${hold.fenceOf('__proto__')}","b":"${hold.fenceOf('b')}"}`,
    );
  });

  it('converts errors: name, code, message and plain fields, a cause without its fields', () => {
    const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED', secret: 'x' });
    expect(json(new StoreError('no answer', { cause, applied: 'no' }))).toEqual({
      name: 'StoreError',
      code: 'STORE',
      message: 'no answer',
      applied: 'no',
      cause: { name: 'Error', code: 'ECONNREFUSED', message: 'refused' },
    });
    expect(json(new HoldLostError('a', 7n, 'expired', { secret: 1 }))).toEqual({
      name: 'HoldLostError',
      code: 'HOLD_LOST',
      message: 'Lock "a" is not held any more: its time ran out',
      lock: 'a',
      fence: '7',
      how: 'expired',
    });
    expect(json(new StaleFenceError('r', 1n, 2n))).toMatchObject({ fence: '1', latest: '2' });
    const votes = [{ node: 'a:1', answer: 'failed', error: cause } as const];
    expect(json(new QuorumError('no majority', votes, 'unknown'))).toMatchObject({
      votes: [{ node: 'a:1', answer: 'failed', error: { name: 'Error', message: 'refused' } }],
    });
  });
});

describe('a hold', () => {
  it('has its owner, its metadata and the time since its grant', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks({ owner: 'web-1' })
      .mutex('a')
      .acquire({ metadata: { order: 7 } });
    await clock.advance(1_500);
    expect([hold.owner, hold.metadata, hold.heldForMs]).toEqual(['web-1', { order: 7 }, 1_500]);
  });

  it('was held until it was released or lost, and no longer', async () => {
    const { locks, clock } = makeWorld();
    const own = locks();
    const hold = await own.mutex('a').acquire({ reentrant: true });
    const lost = await own.mutex('b').acquire({ renew: false, ttlMs: 5_000 });
    const nested = async (): Promise<number> => {
      const inner = await own.mutex('c').acquire({ reentrant: true });
      await clock.sleep(100);
      await inner.release();
      await clock.sleep(500);
      return inner.heldForMs;
    };
    const inner = outcomeOf(own.withLock('c', nested, { reentrant: true }));
    await clock.advance(1_500);
    await hold.release();
    await clock.advance(60_000);
    expect(hold.heldForMs).toBe(1_500);
    expect(lost.heldForMs).toBeLessThanOrEqual(5_000);
    expect(inner.value).toBe(100);
  });
});

describe('tryRun', () => {
  it('runs under the lock, or reports that it did not', async () => {
    const { locks, clock } = makeWorld();
    const first = outcomeOf(
      locks()
        .mutex('a')
        .tryRun(() => clock.sleep(1_000).then(() => 1)),
    );
    await clock.settle();
    expect(
      await locks()
        .mutex('a')
        .tryRun(() => 2),
    ).toEqual({ ran: false });
    expect(
      await locks()
        .all(['a', 'b'])
        .tryRun(() => 2),
    ).toEqual({ ran: false });
    await clock.advance(1_000);
    expect(first.value).toEqual({ ran: true, value: 1 });
    expect(
      await locks()
        .all(['a', 'b'])
        .tryRun((hold) => hold.names),
    ).toEqual({
      ran: true,
      value: ['a', 'b'],
    });
    await expect(
      locks()
        .mutex('a')
        .tryRun(() => Promise.reject(new Error('mine'))),
    ).rejects.toThrow('mine');
    expect(
      await locks()
        .mutex('a')
        .tryRun(() => 3),
    ).toEqual({ ran: true, value: 3 });
  });
});
