import { describe, expect, it } from 'vitest';
import { createLocks, memoryStore, openLocks } from '../../src/index.ts';
import { refusal } from '../support/memory/refusal.ts';
import { makeWorld } from '../support/memory/world.ts';

/** Bad input is refused before any I/O. Values are cast because callers in JavaScript can pass anything. */
const BAD_NAMES: [string, unknown][] = [
  ['empty', ''],
  ['a number', 7],
  ['undefined', undefined],
  ['null', null],
  ['an object', {}],
  ['NUL', 'a\u0000b'],
  ['a line feed', 'a\nb'],
  ['a carriage return and a command', 'a\r\nFLUSHALL'],
  ['an escape', '\u001b[2J'],
  ['DEL', 'a\u007f'],
  ['a C1 control', 'a\u0085'],
  ['a lone high surrogate', 'a\ud800'],
  ['a lone low surrogate', '\udc00a'],
  ['513 bytes', 'x'.repeat(513)],
  ['513 bytes of two-byte characters and one', `${'é'.repeat(256)}x`],
  ['171 three-byte characters', '名'.repeat(171)],
];

const GOOD_NAMES = [
  'a',
  'x'.repeat(512),
  'é'.repeat(256),
  '名'.repeat(170),
  '🔒'.repeat(128),
  '__proto__',
  'constructor',
  ' ',
  '../..',
  '\u202E',
];

const BAD_DURATIONS: unknown[] = [
  0,
  -1,
  1.5,
  Number.NaN,
  Number.NEGATIVE_INFINITY,
  '10',
  '1e3',
  86_400_001,
  2 ** 31,
  Number.MAX_SAFE_INTEGER + 1,
  10n,
  {},
  true,
];

describe('names', () => {
  it.each(BAD_NAMES)('%s is refused everywhere, before any I/O', async (_, name) => {
    const { faulty } = makeWorld();
    const { locks, store } = faulty(() => null);
    const bad = name as string;
    for (const use of [
      () => locks.mutex(bad),
      () => locks.readWriteLock(bad),
      () => locks.semaphore(bad, { permits: 1 }),
      () => locks.all([bad]),
      () => locks.all(['good', bad]),
      () => locks.election(bad),
      () => locks.rateLimit(bad, { permits: 1, perMs: 1 }),
      () => locks.once(bad, () => {}),
      () => locks.withLock(bad, () => {}),
      () => locks.inspect(bad),
      () => locks.evict(bad, { id: 'x' }),
    ]) {
      expect(await refusal(use)).toBe('INVALID_ARGUMENT');
    }
    expect(store.calls).toHaveLength(0);
  });

  it('of every other kind work, and are compared exactly', async () => {
    const { locks } = makeWorld();
    for (const name of GOOD_NAMES) expect(await locks().mutex(name).tryAcquire(), name).not.toBeNull();
    expect(await locks().mutex('é').tryAcquire()).not.toBeNull();
    expect(await locks().mutex('e\u0301').tryAcquire()).not.toBeNull();
    expect(await locks().mutex('É').tryAcquire()).not.toBeNull();
    expect(await locks().mutex('é').tryAcquire()).toBeNull();
  });

  it('in lists: an empty list and a value that is not a list are refused', async () => {
    const { locks } = makeWorld();
    expect(await refusal(() => locks().all([]))).toBe('INVALID_ARGUMENT');
    expect(await refusal(() => locks().all('ab' as unknown as string[]))).toBe('INVALID_ARGUMENT');
  });
});

describe('durations', () => {
  it.each(['ttlMs', 'waitMs', 'renewEveryMs', 'maxHoldMs'])(
    '%s must be whole milliseconds up to a day',
    async (option) => {
      const { faulty } = makeWorld();
      const { locks, store } = faulty(() => null);
      const bad = BAD_DURATIONS.filter((value) => !(option === 'waitMs' && value === 0));
      for (const value of bad) {
        const options = { [option]: value } as never;
        expect(await refusal(() => locks.mutex('a').acquire(options)), String(value)).toBe(
          'INVALID_ARGUMENT',
        );
        expect(await refusal(() => locks.mutex('a', options)), String(value)).toBe('INVALID_ARGUMENT');
        expect(await refusal(() => createLocks(memoryStore(), options)), String(value)).toBe(
          'INVALID_ARGUMENT',
        );
      }
      expect(store.calls).toHaveLength(0);
    },
  );

  it('only waitMs and maxHoldMs accept Infinity', async () => {
    const { locks } = makeWorld();
    const infinite = Number.POSITIVE_INFINITY;
    expect(await refusal(() => locks().mutex('a', { waitMs: infinite, maxHoldMs: infinite }))).toBe(
      'accepted',
    );
    expect(await refusal(() => locks().mutex('a', { ttlMs: infinite }))).toBe('INVALID_ARGUMENT');
    expect(await refusal(() => locks().mutex('a', { renewEveryMs: infinite }))).toBe('INVALID_ARGUMENT');
  });

  it('the extremes are accepted', async () => {
    const { locks } = makeWorld();
    const hold = await locks()
      .mutex('a')
      .acquire({ ttlMs: 86_400_000, waitMs: 86_400_000, maxHoldMs: 86_400_000 });
    await hold.release();
  });

  it('renewEveryMs must be shorter than ttlMs', async () => {
    const { locks } = makeWorld();
    expect(await refusal(() => locks().mutex('a', { ttlMs: 1_000, renewEveryMs: 1_000 }))).toBe(
      'INVALID_ARGUMENT',
    );
  });

  it('pollMs needs a minimum and a maximum in order', async () => {
    for (const pollMs of [{ min: 0, max: 1 }, { min: 10, max: 5 }, { min: 1, max: Number.NaN }, {}]) {
      expect(await refusal(() => createLocks(memoryStore(), { pollMs: pollMs as never }))).toBe(
        'INVALID_ARGUMENT',
      );
    }
  });
});

describe('permits', () => {
  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, '3', 2 ** 31, undefined])(
    'a capacity of %s is refused',
    async (permits) => {
      const { locks } = makeWorld();
      expect(await refusal(() => locks().semaphore('a', { permits: permits as number }))).toBe(
        'INVALID_ARGUMENT',
      );
      expect(await refusal(() => locks().rateLimit('a', { permits: permits as number, perMs: 1_000 }))).toBe(
        'INVALID_ARGUMENT',
      );
    },
  );

  it('more than the capacity are refused', async () => {
    const { locks } = makeWorld();
    const pool = locks().semaphore('a', { permits: 3 });
    for (const permits of [0, -1, 4, 1.5, '1' as unknown as number]) {
      expect(await refusal(() => pool.acquire({ permits }))).toBe('INVALID_ARGUMENT');
      expect(await refusal(() => pool.tryAcquire({ permits }))).toBe('INVALID_ARGUMENT');
    }
    expect(await refusal(() => locks().semaphore('a', undefined as never))).toBe('INVALID_ARGUMENT');
  });
});

describe('owners, signals, functions, stores and holds', () => {
  it.each(['', 'x'.repeat(129), 'a\nb', 'a\u001b[31m', '\u202Eevil', 'a\u200Bb', 7, null, {}])(
    'the owner %j is refused',
    (owner) => {
      expect(() => createLocks(memoryStore(), { owner: owner as string })).toThrow(/owner/);
    },
  );

  it('owners may be any printable text', async () => {
    const locks = createLocks(memoryStore(), { owner: 'wörker #1 <b>.9z' });
    await locks.mutex('a').acquire();
    expect((await locks.inspect('a')).holders[0]?.owner).toBe('wörker #1 <b>.9z');
  });

  it('a value that is not a signal, a function, a flag, a store or a claim is refused', async () => {
    const { locks } = makeWorld();
    const mutex = locks().mutex('a');
    const election = locks().election('a');
    const nothing = async (): Promise<void> => {};
    const bad = [
      () => mutex.acquire({ signal: {} as AbortSignal }),
      () => mutex.acquire({ signal: new EventTarget() as AbortSignal }),
      () => mutex.acquire(null as never),
      () => mutex.acquire(7 as never),
      () => mutex.acquire({ renew: 'yes' as never }),
      () => mutex.acquire({ reentrant: 1 as never }),
      () => mutex.run(undefined as never),
      () => locks().withLock('a', 'fn' as never),
      () =>
        locks()
          .all(['a'])
          .run(7 as never),
      () => election.start(null as never),
      () => election.start(nothing as never),
      () => election.start({ onElected: 7 as never }),
      () => election.start({ onLost: 'x' as never }),
      () => election.lead(undefined as never),
      () => election.lead(nothing, null as never),
      () => election.lead(nothing, { signal: 7 as never }),
      () => election.observe(null as never),
      () => election.observe({ signal: {} as never }),
      () => locks().once('a', undefined as never),
      () => locks().once('a', nothing, null as never),
      () => locks().once('a', nothing, 7 as never),
      () => locks().on('lost', undefined as never),
      () => locks().evict('a', {} as never),
      () => locks().evict('a', undefined as never),
      () => locks().close({ drainMs: -1 }),
      () => locks().close(null as never),
      () => createLocks(memoryStore(), null as never),
      () => createLocks(memoryStore(), 7 as never),
      () => createLocks(memoryStore(), { renewal: 'thread' }),
      () => openLocks('memory:', null as never),
      () => openLocks('memory:', { renewal: 'threads' as never }),
      () => memoryStore(null as never),
      () => createLocks(undefined as never),
      () => createLocks({} as never),
    ];
    for (const use of bad) expect(await refusal(use), use.toString()).toBe('INVALID_ARGUMENT');
  });

  it('a hold that is used after release, or twice at once, gives typed results', async () => {
    const { locks } = makeWorld();
    const hold = await locks().mutex('a').acquire();
    await Promise.all([hold.extend(), hold.extend(5_000), hold.extend()]);
    hold.assertHeld();
    expect(await Promise.all([hold.release(), hold.release(), hold.release()])).toEqual([true, false, false]);
    expect(await refusal(() => hold.extend())).toBe('HOLD_LOST');
    expect(await refusal(() => hold.assertHeld())).toBe('HOLD_LOST');
  });
});

it.each([
  [() => createLocks(memoryStore()).mutex('a', null as never), 'options must be of type object; got null'],
  [() => createLocks(memoryStore()).all([]), 'names must be a list of at least one name'],
  [
    () => createLocks(memoryStore()).on('nope' as never, () => {}),
    'event must be an event of Locks; got "nope"',
  ],
  [
    () => createLocks(memoryStore(), { metadata: ['x'.repeat(100)] as never }),
    /^metadata must be a plain JSON object of at most 4096 bytes; got "104 bytes: \[\\"x{1,40}…$/,
  ],
  [
    () => createLocks(memoryStore(), { ttlMs: 1_000, renewEveryMs: 1_000 }),
    'renewEveryMs must be a whole number from 1 to 999, less than ttlMs; got 1000',
  ],
  [
    () => createLocks(memoryStore(), { renewal: 'threads' as never }),
    'renewal must be inline; got "threads"',
  ],
])('says what was wrong with what it got: %s', (use, message) => {
  expect(use).toThrow(message);
});
