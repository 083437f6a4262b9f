import { describe, expect, it } from 'vitest';
import { createLocks, memoryStore } from '../../src/index.ts';
import { makeWorld } from '../support/memory/world.ts';

/** Plain JavaScript: no compiler has seen these. */
const untyped = (options: object): never => options as never;

describe('an unknown option is refused with the nearest known name', () => {
  const { locks } = makeWorld();
  const own = locks();
  const calls: readonly (readonly [call: string, hint: string, make: () => unknown])[] = [
    ['createLocks', 'did you mean ttlMs?', () => createLocks(memoryStore(), untyped({ ttl: 5 }))],
    ['memoryStore', 'did you mean queueMax?', () => memoryStore(untyped({ queuMax: 5 }))],
    ['mutex', 'did you mean waitMs?', () => own.mutex('a', untyped({ wait: 5 }))],
    ['acquire', 'known: ttlMs, waitMs', () => own.mutex('a').acquire(untyped({ retryCount: 3 }))],
    ['pollMs per call', 'known: ttlMs', () => own.mutex('a').acquire(untyped({ pollMs: 3 }))],
    ['tryAcquire', 'did you mean metadata?', () => own.mutex('a').tryAcquire(untyped({ metaData: {} }))],
    ['run', 'did you mean renew?', () => own.mutex('a').run(() => {}, untyped({ renewal: true }))],
    ['tryRun', 'did you mean ttlMs?', () => own.mutex('a').tryRun(() => {}, untyped({ ttlms: 1 }))],
    ['withLock', 'did you mean signal?', () => own.withLock('a', () => {}, untyped({ signl: 1 }))],
    ['readWriteLock', 'did you mean ttlMs?', () => own.readWriteLock('a', untyped({ ttl: 1 }))],
    ['semaphore', 'did you mean waitMs?', () => own.semaphore('a', untyped({ permits: 1, waitms: 1 }))],
    [
      'semaphore acquire',
      'did you mean permits?',
      () => own.semaphore('a', { permits: 2 }).acquire(untyped({ permit: 1 })),
    ],
    ['all', 'did you mean ttlMs?', () => own.all(['a'], untyped({ ttl: 1 }))],
    ['election', 'did you mean ttlMs?', () => own.election('a', untyped({ ttl: 1 }))],
    ['start', 'did you mean onElected?', () => own.election('a').start(untyped({ onElect: () => {} }))],
    ['lead', 'known: signal', () => own.election('a').lead(async () => {}, untyped({ waitMs: 1 }))],
    ['once', 'did you mean rememberMs?', () => own.once('a', () => {}, untyped({ remember: 1 }))],
    ['rateLimit', 'did you mean perMs?', () => own.rateLimit('a', untyped({ permits: 1, per: 1 }))],
    [
      'take',
      'known: waitMs, signal, metadata',
      () => own.rateLimit('a', { permits: 1, perMs: 1 }).take(1, untyped({ ttlMs: 1 })),
    ],
    ['inspect', 'known: use', () => own.inspect('a', untyped({ kind: 'once' }))],
    ['evict', 'known: use', () => own.evict('a', { id: 'x' }, untyped({ kind: 'once' }))],
    ['close', 'did you mean drainMs?', () => own.close(untyped({ drain: 1 }))],
    ['pollMs', 'known: min, max', () => createLocks(memoryStore(), { pollMs: untyped({ least: 1 }) })],
  ];

  it.each(calls)('%s: %s', async (_, hint, make) => {
    const call = async (): Promise<unknown> => await make();
    await expect(call()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(call()).rejects.toThrow(hint);
  });

  it('but a key that is undefined, inherited or a symbol is ignored', async () => {
    const options = Object.assign(Object.create({ inherited: 1 }), { ttl: undefined, [Symbol('x')]: 1 });
    const hold = await own.mutex('b').acquire(options);
    await hold.release();
  });
});
