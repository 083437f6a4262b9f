import { describe, expect, it } from 'vitest';
import { createLocks, HoldLostError, memoryStore, type Store, StoreError } from '../../src/index.ts';
import type { ClaimRef, RenewChange, RenewOutcome } from '../../src/store/store.ts';
import { WrappedStore } from '../../src/store/wrapped-store.ts';
import { Callbacks } from '../../src/stores/shared/callback-index.ts';
import { makeWorld } from '../support/memory/world.ts';

/** A store whose reports of evictions come from the test, and whose answers to renewals can be held back. */
class ReportingStore extends WrappedStore {
  readonly #listeners = new Callbacks<[id: string | null]>();
  override readonly onEvicted = this.#listeners.add;
  heldBack: Promise<void> = Promise.resolve();

  report(id: string | null): void {
    this.#listeners.call(id);
  }

  override async renew(claim: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
    const outcome = await super.renew(claim, change);
    await this.heldBack;
    return outcome;
  }
}

describe('an evicted hold', () => {
  it('is lost at once, not at its next renewal', async () => {
    const { locks, clock } = makeWorld();
    const owner = locks();
    const lost: unknown[] = [];
    owner.on('lost', ({ id, how }) => lost.push([id, how]));
    const hold = await owner.mutex('a').acquire({ ttlMs: 30_000 });
    const { signal } = hold;
    expect(await locks().evict('a', hold)).toBe(true);
    await clock.advance(0);
    expect(signal.reason).toBeInstanceOf(HoldLostError);
    expect(signal.reason).toMatchObject({ lock: 'a', fence: hold.fence, how: 'taken' });
    expect(lost).toEqual([[hold.id, 'taken']]);
  });

  it('is lost at once although it is not renewed', async () => {
    const { locks, clock } = makeWorld();
    const hold = await locks().mutex('a').acquire({ ttlMs: 30_000, renew: false });
    await locks().evict('a', hold);
    await clock.advance(0);
    expect(hold.signal.reason).toMatchObject({ how: 'taken' });
  });

  it('leaves every other hold alone, also the next one of the same lock', async () => {
    const { locks, clock } = makeWorld();
    const [a, b] = [locks(), locks()];
    const [first, other] = [await a.mutex('a').acquire(), await a.mutex('b').acquire()];
    const next = b.mutex('a').acquire();
    await locks().evict('a', first);
    await clock.advance(0);
    (await next).assertHeld();
    other.assertHeld();
    expect(first.remainingMs).toBe(0);
  });

  it('is lost when another renewal is sent before the store could be asked', async () => {
    const { store: memory, clock } = makeWorld();
    const answers: Array<(error: Error | null) => void> = [];
    const store = new (class extends ReportingStore {
      override async renew(claim: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
        const outcome = await super.renew(claim, change);
        const error = await new Promise<Error | null>((resolve) => answers.push(resolve));
        if (error !== null) throw error;
        return outcome;
      }
    })(memory);
    const hold = await createLocks(store, { clock }).mutex('a').acquire({ ttlMs: 30_000, renew: false });
    const first = hold.extend();
    hold.extend().catch(() => {});
    await clock.advance(0);
    // The answer to the first renewal is on its way when the claim is evicted. The second fails.
    answers[0]?.(null);
    await memory.evict({ name: 'a', id: hold.id });
    store.report(hold.id);
    await first;
    await clock.advance(0);
    answers[1]?.(new StoreError('no answer', { applied: 'unknown' }));
    await clock.advance(0);
    answers[2]?.(null);
    await clock.advance(0);
    expect(hold.signal.reason).toMatchObject({ how: 'taken' });
  });

  it('is lost at once when the renewal before the eviction is answered after it', async () => {
    const { store: memory, clock } = makeWorld();
    const store = new ReportingStore(memory);
    const held = await createLocks(store, { clock }).mutex('a').acquire({ ttlMs: 3_000 });
    let answer = (): void => {};
    store.heldBack = new Promise((resolve) => {
      answer = resolve;
    });
    await clock.advance(1_000);
    await memory.evict({ name: 'a', id: held.id });
    store.report(held.id);
    await clock.advance(0);
    expect(held.signal.aborted).toBe(false);
    answer();
    await clock.advance(0);
    expect(held.signal.reason).toMatchObject({ how: 'taken' });
  });
});

describe('a report of an eviction that did not happen', () => {
  it('takes no hold away, and makes none last longer', async () => {
    const { store: memory, clock } = makeWorld();
    const store = new ReportingStore(memory);
    const locks = createLocks(store, { clock });
    const renewed = await locks.mutex('a').acquire({ ttlMs: 3_000 });
    const short = await locks.mutex('b').acquire({ ttlMs: 3_000, renew: false });
    await clock.advance(500);
    for (const id of [renewed.id, short.id, 'another#0123456789ab.1', null]) store.report(id);
    await clock.advance(0);
    renewed.assertHeld();
    short.assertHeld();
    expect(short.remainingMs).toBeLessThan(2_500);
    await clock.advance(2_600);
    renewed.assertHeld();
    expect(short.signal.reason).toMatchObject({ how: 'expired' });
  });

  it('does not shorten a hold that is not renewed, nor its TTL, however many come', async () => {
    const { store: memory, clock } = makeWorld();
    const store = new ReportingStore(memory);
    const locks = createLocks(store, { clock });
    const hold = await locks.mutex('a').acquire({ ttlMs: 30_000, renew: false });
    for (let n = 0; n < 200; n += 1) {
      store.report(null);
      await clock.advance(1);
    }
    expect(hold.remainingMs).toBeGreaterThan(29_400);
    await hold.extend();
    expect(hold.remainingMs).toBeGreaterThan(29_600);
  });

  it('does not undo an extend that is pending', async () => {
    const { store: memory, clock } = makeWorld();
    const store = new ReportingStore(memory);
    const hold = await createLocks(store, { clock }).mutex('a').acquire({ ttlMs: 30_000 });
    let answer = (): void => {};
    store.heldBack = new Promise((resolve) => {
      answer = resolve;
    });
    const extended = hold.extend(600_000);
    store.report(hold.id);
    await clock.advance(0);
    answer();
    await extended;
    await clock.advance(0);
    expect(hold.remainingMs).toBeGreaterThan(590_000);
  });

  it('that comes many times during a renewal asks the store once more', async () => {
    const { store: memory, clock } = makeWorld();
    const store = new ReportingStore(memory);
    const hold = await createLocks(store, { clock }).mutex('a').acquire({ ttlMs: 30_000 });
    let renewals = 0;
    const { renew } = store;
    store.renew = (...args) => {
      renewals += 1;
      return renew.apply(store, args);
    };
    for (let n = 0; n < 50; n += 1) store.report(hold.id);
    await clock.advance(100);
    expect(renewals).toBe(2);
  });

  it('is not listened for any more by a Locks that has closed', async () => {
    let listeners = 0;
    const inner = memoryStore();
    const store: Store = Object.assign(Object.create(inner), {
      onEvicted: () => {
        listeners += 1;
        return () => {
          listeners -= 1;
        };
      },
      close: async () => {},
    });
    const [a, b] = [createLocks(store), createLocks(store)];
    expect(listeners).toBe(2);
    await a.close();
    expect(listeners).toBe(1);
    await b.close();
    expect(listeners).toBe(0);
  });
});
