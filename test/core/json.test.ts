import { describe, expect, it } from 'vitest';
import { HoldLostError, type LockEvents, QuorumError, StaleFenceError, StoreError } from '../../src/index.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';

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
    const { locks: own } = faulty((call) => (call.verb === 'renew' ? 'fail' : null));
    const events: unknown[] = [];
    const names: (keyof LockEvents)[] = ['acquired', 'refused', 'renewFailed', 'lost'];
    for (const name of names) own.on(name, (event) => events.push([name, json(event)]));
    const hold = await own.mutex('a').acquire({ ttlMs: 1_000 });
    outcomeOf(own.mutex('a').acquire({ waitMs: 100 }));
    await clock.advance(2_000);
    const byName = Object.fromEntries(events as [string, Record<string, unknown>][]);
    expect(byName.acquired).toMatchObject({ name: 'a', fence: hold.fence.toString() });
    expect(byName.refused).toMatchObject({ error: { name: 'AcquireTimeoutError', code: 'ACQUIRE_TIMEOUT' } });
    expect(byName.renewFailed).toMatchObject({ error: { name: 'StoreError', code: 'STORE' } });
    expect(byName.lost).toMatchObject({ error: { code: 'HOLD_LOST', fence: hold.fence.toString() } });
    expect(locks().owner).toMatch(/:/);
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
