import { channel } from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import { createLocks, memoryStore, openLocks } from '../../src/index.ts';
import { request } from '../../src/testing/store-case.ts';
import { codeOf, makeWorld, outcomeOf } from '../support/memory/world.ts';

describe('inspecting', () => {
  it('shows holders and waiters in order, with owner, fence, age and metadata', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks({ owner: 'one', metadata: { job: 1 } })
      .mutex('a')
      .acquire({ ttlMs: 30_000 });
    const waiting = ['two', 'three'].map((owner) =>
      locks({ owner })
        .mutex('a')
        .acquire({ metadata: { by: owner } })
        .catch(() => {}),
    );
    await clock.advance(5_000);
    const view = await locks().inspect('a');
    expect(view).toMatchObject({ name: 'a', kind: 'exclusive', permits: null });
    expect(view.holders).toMatchObject([
      {
        id: hold.id,
        owner: 'one',
        fence: hold.fence,
        heldForMs: 5_000,
        expiresInMs: 25_000,
        metadata: { job: 1 },
      },
    ]);
    expect(view.waiters).toMatchObject([
      { owner: 'two', fence: null, heldForMs: null, metadata: { by: 'two' } },
      { owner: 'three', metadata: { by: 'three' } },
    ]);
    await hold.release();
    await clock.advance(60_000);
    await Promise.all(waiting);
  });

  it('shows a free lock as free, and a semaphore with its capacity', async () => {
    const { locks } = makeWorld();
    expect(await locks().inspect('a')).toEqual({
      name: 'a',
      use: 'lock',
      done: false,
      kind: null,
      permits: null,
      holders: [],
      waiters: [],
    });
    await locks().semaphore('a', { permits: 5 }).acquire({ permits: 2 });
    expect(await locks().inspect('a')).toMatchObject({
      kind: 'permits',
      permits: 5,
      holders: [{ mode: { kind: 'permits', count: 2, of: 5 } }],
    });
  });

  it('shows the claim and the note of a foreign program as far as they are known', async () => {
    const { locks, store } = makeWorld();
    await store.claim(request('a', { id: 'deadbeef', ttlMs: 1_000, note: '[1' }));
    expect((await locks().inspect('a')).holders).toMatchObject([
      { id: 'deadbeef', owner: null, metadata: null },
    ]);
  });

  it('lists by prefix', async () => {
    const { locks } = makeWorld();
    const one = locks();
    for (const name of ['a/1', 'a/2', 'b']) await one.mutex(name).acquire();
    const names: string[] = [];
    for await (const view of one.list('a/')) names.push(view.name);
    expect(names.sort()).toEqual(['a/1', 'a/2']);
  });

  it('evicts exactly one claim, and grants the next', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    const next = outcomeOf(locks().mutex('a').acquire());
    await clock.settle();
    expect(await locks().evict('a', { id: 'someone#else' })).toBe(false);
    expect(await locks().evict('a', hold)).toBe(true);
    await clock.settle();
    expect(next.state).toBe('kept');
  });
});

describe('events', () => {
  it('follow the life of a hold, with its name, id and owner, also on diagnostics channels', async () => {
    const { locks, clock } = makeWorld();
    const log: [string, Record<string, unknown>][] = [];
    const one = locks({ owner: 'one' });
    const events = ['waiting', 'acquired', 'refused', 'renewed', 'lost', 'released', 'evicted'] as const;
    for (const event of events) one.on(event, (detail) => log.push([event, detail as never]));
    const published: unknown[] = [];
    const listener = (detail: unknown): void => void published.push(detail);
    channel('holdfast:acquired').subscribe(listener);

    const hold = await one.mutex('a').acquire({ ttlMs: 3_000 });
    const waiting = one
      .mutex('a')
      .acquire({ waitMs: 500 })
      .catch(() => {});
    await clock.advance(1_100);
    await waiting;
    await one.mutex('a').tryAcquire();
    await hold.release();
    const other = await one.mutex('b').acquire({ ttlMs: 3_000 });
    await one.evict('b', other);
    await clock.advance(3_000);

    const told = log.map(([event]) => event);
    expect(told).toEqual([
      'acquired',
      'waiting',
      'refused',
      'renewed',
      'refused',
      'released',
      'acquired',
      'evicted',
      'lost',
    ]);
    for (const [, detail] of log)
      expect(detail).toMatchObject({ name: expect.any(String), id: expect.any(String), owner: 'one' });
    expect(log.filter(([event]) => event === 'refused').map(([, detail]) => detail.why)).toEqual([
      'timeout',
      'held',
    ]);
    expect(log[5]?.[1]).toMatchObject({ heldForMs: 1_100, tookMs: 0 });
    expect(log[8]?.[1]).toMatchObject({ how: 'taken', heldForMs: expect.any(Number) });
    expect(published).toHaveLength(2);
    channel('holdfast:acquired').unsubscribe(listener);
  });

  it('stop when the listener is removed, and survive a listener that throws', async () => {
    const { locks } = makeWorld();
    const one = locks();
    let calls = 0;
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on('warning', onWarning);
    const off = one.on('acquired', () => {
      calls += 1;
      throw new Error('listener');
    });
    // An object that has no text, thrown and rejected with.
    const offToo = [
      one.on('acquired', () => {
        throw Object.create(null);
      }),
      one.on('released', () => Promise.reject(Object.create(null)) as never),
    ];
    await (await one.mutex('a').acquire()).release();
    off();
    for (const each of offToo) each();
    await (await one.mutex('a').acquire()).release();
    await new Promise(setImmediate);
    process.off('warning', onWarning);
    expect(calls).toBe(1);
    expect(warnings).toMatchObject([
      { code: 'HOLDFAST_LISTENER', message: 'A holdfast listener for acquired threw: Error: listener' },
      { code: 'HOLDFAST_LISTENER', message: 'A holdfast listener for acquired threw: an object' },
      { code: 'HOLDFAST_LISTENER', message: 'A holdfast listener for released threw: an object' },
    ]);
    expect(() => one.on('nonsense' as 'lost', () => {})).toThrow(/must be an event/);
  });
});

describe('close', () => {
  it('rejects new and waiting acquires, waits for running holds, and releases the rest', async () => {
    const { locks, clock, store } = makeWorld();
    const one = locks();
    const short = await one.mutex('short').acquire();
    const long = await one.mutex('long').acquire();
    const { signal } = long;
    const waiting = outcomeOf(one.mutex('long').acquire());
    await clock.settle();
    const closed = outcomeOf(one.close({ drainMs: 5_000 }));
    await clock.settle();
    expect(codeOf(waiting.error)).toBe('CLOSED');
    await expect(one.mutex('new').acquire()).rejects.toMatchObject({ code: 'CLOSED' });
    await clock.advance(2_000);
    await short.release();
    await clock.advance(2_000);
    expect(closed.state).toBe('pending');
    expect(signal.aborted).toBe(false);
    await clock.advance(1_100);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ how: 'closed' });
    await clock.advance(100);
    expect(closed.state).toBe('kept');
    for (const name of ['short', 'long', 'new']) expect(await store.read(name)).toEqual([]);
  });

  it('is fast when nothing is held, and idempotent', async () => {
    const { locks } = makeWorld();
    const one = locks();
    await Promise.all([one.close(), one.close()]);
    await one[Symbol.asyncDispose]();
  });

  it('ends candidates at once instead of draining them', async () => {
    const { locks, clock } = makeWorld();
    const one = locks();
    const candidate = one.election('boss').start();
    await clock.settle();
    expect(candidate.isLeader).toBe(true);
    const closed = outcomeOf(one.close({ drainMs: 60_000 }));
    await clock.advance(10);
    expect(closed.state).toBe('kept');
  });

  it('does not hang on a store that is out of reach', async () => {
    const { faulty, clock } = makeWorld();
    let down = false;
    const { locks } = faulty(() => (down ? 'hang' : null));
    await locks.mutex('a').acquire();
    down = true;
    const closed = outcomeOf(locks.close({ drainMs: 0 }));
    await clock.advance(15_000);
    expect(closed.state).toBe('kept');
  });

  it('closes a store that two Locks share only with the second', async () => {
    const store = memoryStore();
    const [one, two] = [createLocks(store), createLocks(store)];
    await one.close();
    await two.withLock('a', () => {});
    await two.close();
    await expect(store.read('a')).rejects.toMatchObject({ code: 'CLOSED' });
  });

  it('releases a claim that was granted while it closed', async () => {
    const { locks, clock, store } = makeWorld();
    const one = locks();
    const late = outcomeOf(one.mutex('a').acquire());
    const closed = one.close({ drainMs: 0 });
    await clock.advance(10);
    await closed;
    expect(codeOf(late.error)).toBe('CLOSED');
    expect(await store.read('a')).toEqual([]);
  });

  it('releaseAll releases every hold and resolves to their number', async () => {
    const { locks, store } = makeWorld();
    const one = locks();
    for (const name of ['a', 'b', 'c']) await one.mutex(name).acquire();
    await store.evict({ name: 'c', id: (await store.read('c'))[0]?.id ?? '' });
    expect(await one.releaseAll()).toBe(2);
    expect(await store.read('a')).toEqual([]);
  });
});

describe('openLocks', () => {
  it('opens memory, and lists the known schemes for any other URL', async () => {
    const locks = await openLocks('memory:');
    await locks.withLock('a', () => {});
    await locks.close();
    const secret = await openLocks('mongodb://root:hunter2@host/db').catch(
      (error: unknown) => error as Error,
    );
    expect(codeOf(secret)).toBe('INVALID_ARGUMENT');
    expect(String(secret)).not.toContain('hunter2');
    await expect(openLocks('memory:', { renewal: 'thread' })).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    expect(() => createLocks(memoryStore(), { renewal: 'thread' })).toThrow('must be inline; got');
  });
});

describe('a fence', () => {
  it('keeps rising when the store has lost its data and its clock was set back', async () => {
    const { clock, store } = makeWorld();
    let inner = store;
    const handle = new Proxy(store, {
      get: (_, key) => {
        const value: unknown = Reflect.get(inner, key);
        return typeof value === 'function' ? value.bind(inner) : value;
      },
    });
    const locks = createLocks(handle, { clock });
    const before = await locks.mutex('a').acquire();
    clock.jumpWall(-3_600_000);
    inner = memoryStore({ clock });
    const after = await locks.mutex('a').acquire();
    expect(after.fence).toBeGreaterThan(before.fence);
  });

  it('is above every fence that any Locks of this process has seen from the store', async () => {
    const { store, clock } = makeWorld();
    const [one, two] = [createLocks(store, { clock }), createLocks(store, { clock })];
    const first = await one.mutex('a').acquire();
    clock.jumpWall(-3_600_000);
    const second = await two.mutex('b').acquire();
    expect(second.fence).toBeGreaterThan(first.fence);
  });
});
