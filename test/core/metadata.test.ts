import { describe, expect, it } from 'vitest';
import { createLocks, type JsonObject, memoryStore } from '../../src/index.ts';
import { refusal } from '../support/memory/refusal.ts';
import { makeWorld } from '../support/memory/world.ts';

describe('metadata', () => {
  const cyclic: Record<string, unknown> = {};
  cyclic.self = cyclic;
  const bad: [string, unknown][] = [
    ['too large', { text: 'x'.repeat(4_097) }],
    ['cyclic', cyclic],
    [
      'a getter that throws',
      Object.defineProperty({}, 'x', {
        enumerable: true,
        get: () => {
          throw new Error('trap');
        },
      }),
    ],
    ['a toJSON', { toJSON: () => ({}) }],
    ['a BigInt', { n: 1n }],
    ['a function', { f: () => {} }],
    ['a symbol', { s: Symbol('x') }],
    ['a list with a hole', { list: new Array(1) }],
    [
      'a getter that throws something strange',
      Object.defineProperty({}, 'x', {
        enumerable: true,
        get: () => {
          throw { message: Symbol('trap') };
        },
      }),
    ],
    ['NaN', { n: Number.NaN }],
    ['a Date', { at: new Date(0) }],
    ['a Map', { map: new Map() }],
    ['an array', []],
    ['a string', 'text'],
    [
      'a hostile proxy',
      new Proxy(
        {},
        {
          ownKeys: () => {
            throw new Error('trap');
          },
        },
      ),
    ],
  ];

  it.each(bad)('%s is refused before any I/O', async (_, metadata) => {
    const { faulty } = makeWorld();
    const { locks, store } = faulty(() => null);
    expect(await refusal(() => locks.mutex('a').acquire({ metadata: metadata as JsonObject }))).toBe(
      'INVALID_ARGUMENT',
    );
    expect(await refusal(() => createLocks(memoryStore(), { metadata: metadata as JsonObject }))).toBe(
      'INVALID_ARGUMENT',
    );
    expect(store.calls).toHaveLength(0);
  });

  it('is copied once and shown unchanged', async () => {
    const { locks } = makeWorld();
    const metadata = JSON.parse(
      '{"__proto__":{"x":1},"list":[1,null,true,"é"],"deep":{"er":{}}}',
    ) as JsonObject;
    const acquiring = locks().mutex('a').acquire({ metadata });
    (metadata as { list: unknown }).list = 'changed';
    await acquiring;
    const shown = (await locks().inspect('a')).holders[0]?.metadata;
    expect(JSON.stringify(shown)).toBe('{"__proto__":{"x":1},"list":[1,null,true,"é"],"deep":{"er":{}}}');
    expect(({} as { x?: unknown }).x).toBeUndefined();
  });

  it('of a call replaces the metadata of the Locks, and undefined members are left out', async () => {
    const { locks } = makeWorld();
    const one = locks({ metadata: { a: 1 } });
    await one.mutex('a').acquire({ metadata: { b: 2, c: undefined } as never });
    await one.mutex('b').acquire();
    expect((await one.inspect('a')).holders[0]?.metadata).toEqual({ b: 2 });
    expect((await one.inspect('b')).holders[0]?.metadata).toEqual({ a: 1 });
  });
});
