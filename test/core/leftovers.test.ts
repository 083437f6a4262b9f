import { describe, expect, it } from 'vitest';
import { createLocks, type Hold } from '../../src/index.ts';
import { storedName } from '../../src/use.ts';
import { makeWorld, outcomeOf } from '../support/memory/world.ts';

/** A store that counts the watches that are still open. */
function counting() {
  const world = makeWorld();
  let open = 0;
  const store = Object.assign(Object.create(world.store) as typeof world.store, {
    traits: world.store.traits,
    claim: world.store.claim.bind(world.store),
    renew: world.store.renew.bind(world.store),
    release: world.store.release.bind(world.store),
    read: world.store.read.bind(world.store),
    close: async () => {},
    watch: async (...args: Parameters<typeof world.store.watch>) => {
      const watch = await world.store.watch(...args);
      open += 1;
      return {
        async [Symbol.asyncDispose]() {
          open -= 1;
          await watch[Symbol.asyncDispose]();
        },
      };
    },
  });
  return { ...world, mine: createLocks(store, { clock: world.clock }), open: () => open };
}

describe('nothing is left', () => {
  it('of a wait that was granted, timed out or aborted: no queue position', async () => {
    const { mine, clock, locks, store } = counting();
    const open = async () => (await store.read('a')).filter(({ granted }) => !granted).length;
    const blocker = await locks().mutex('a').acquire();
    const controller = new AbortController();
    const waits = [
      outcomeOf(mine.mutex('a').acquire()),
      outcomeOf(mine.mutex('a').acquire({ waitMs: 50 })),
      outcomeOf(mine.mutex('a').acquire({ signal: controller.signal })),
    ];
    await clock.settle();
    expect(await open()).toBe(3);
    controller.abort();
    await clock.advance(100);
    await blocker.release();
    await clock.settle();
    expect(waits.map(({ state }) => state)).toEqual(['kept', 'broken', 'broken']);
    expect(await open()).toBe(0);
  });

  it('of an observer that has ended: no watch', async () => {
    const { mine, clock, open } = counting();
    const observer = mine.election('boss').observe()[Symbol.asyncIterator]();
    await observer.next();
    expect(open()).toBe(1);
    await observer.return?.();
    await clock.settle();
    expect(open()).toBe(0);
  });

  it('of claims that expire unreleased: their locks are forgotten although nobody asks again', async () => {
    const { locks, clock, store } = makeWorld();
    const expired = new Set<string>();
    const names = Array.from({ length: 1_500 }, (_, n) => `caller ${n}`);
    const own = locks();
    const take = (name: string) => own.rateLimit(name, { permits: 1, perMs: 1_000 }).take();
    for (const name of names) {
      await take(name);
      await store.watch({ name: storedName('rateLimit', name) }, () => expired.add(name));
    }
    await clock.advance(2_000);
    expect(expired.size).toBe(0);
    for (let n = 0; n < 501; n += 1) await take(`later caller ${n}`);
    expect(expired.size).toBe(names.length);
  });
});

describe('holds that are renewed together', () => {
  it('are still renewed when others of them end in any order', async () => {
    const { locks, clock } = makeWorld();
    const one = locks();
    const holds: Hold[] = [];
    for (let n = 0; n < 9; n += 1) holds.push(await one.mutex(`lock ${n}`).acquire({ ttlMs: 3_000 }));
    for (const gone of [4, 5, 8, 0, 6]) await holds[gone]?.release();
    await clock.advance(30_000);
    for (const kept of [1, 2, 3, 7]) expect(holds[kept]?.remainingMs, `lock ${kept}`).toBeGreaterThan(0);
  });
});

describe('a finished once', () => {
  it('is remembered for rememberMs, not for the TTL of a hold', async () => {
    const { locks, clock } = makeWorld();
    await locks().once('job', () => 1, { ttlMs: 1_000, rememberMs: 60_000 });
    await clock.advance(59_000);
    expect(await locks().once('job', () => 2)).toEqual({ ran: false, why: 'done' });
  });
});
