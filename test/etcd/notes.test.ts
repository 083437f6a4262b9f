import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { ClaimOutcome, Store } from '../../src/store/store.ts';
import { etcdStore } from '../../src/stores/etcd/index.ts';
import { request } from '../../src/testing/store-case.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { startOneMember } from './support/one-member.ts';

/**
 * A note that changes, such as that of a `once` that is done, concerns every waiter of the lock.
 */
const { cluster, direct, atTheEnd } = await startOneMember();

function open(): Store {
  const store = etcdStore(cluster.client());
  atTheEnd(() => store.close());
  return store;
}

/** Asks for a lock, and counts how often its waiter is woken. */
class Caller {
  readonly #store: Store;
  readonly #id: string;
  readonly #name: string;
  wakeUps = 0;

  constructor(store: Store, name: string, id: string) {
    this.#store = store;
    this.#name = name;
    this.#id = id;
  }

  claim(): Promise<ClaimOutcome> {
    const wanted = request(this.#name, { id: this.#id, ttlMs: 30_000, wait: true });
    const wake = (): void => {
      this.wakeUps += 1;
    };
    return this.#store.claim(wanted, undefined, { wake });
  }

  async renew(note?: string): Promise<void> {
    const { held } = await this.#store.renew({ name: this.#name, id: this.#id }, { ttlMs: 30_000, note });
    expect(held).toBe(true);
  }
}

describe.concurrent('a renewal', () => {
  it('that changes the note wakes every waiter of the lock, in every process', async () => {
    const [first, second, third] = [open(), open(), open()];
    const holder = new Caller(first, 'noted', 'holder#1');
    expect((await holder.claim()).granted).toBe(true);
    const waiters = [second, second, third].map((store, n) => new Caller(store, 'noted', `waiter#${n}`));
    for (const waiter of waiters) expect((await waiter.claim()).granted).toBe(false);
    for (const note of ['one', 'two']) {
      const before = waiters.map(({ wakeUps }) => wakeUps);
      await holder.renew(note);
      await eventually('all are woken', () => waiters.every(({ wakeUps }, n) => wakeUps > (before[n] ?? 0)));
    }
  });

  it('that changes the note wakes a waiter once, and not again when its announcement is gone', async () => {
    const [first, second] = [open(), open()];
    const holder = new Caller(first, 'once', 'holder#1');
    const waiter = new Caller(second, 'once', 'waiter#1');
    expect((await holder.claim()).granted).toBe(true);
    expect((await waiter.claim()).granted).toBe(false);
    const announced = async (): Promise<boolean> =>
      (await direct.getAll().prefix('holdfast/\u0001once').keys()).length > 0;
    await holder.renew('one');
    await eventually('it is woken by the first change', () => waiter.wakeUps >= 1);
    await eventually('the announcement is gone', async () => !(await announced()));
    // The events of one key come in order.
    await holder.renew('two');
    await eventually('it is woken by the second change', () => waiter.wakeUps >= 2);
    // A wake-up too many would come now.
    await sleep(500);
    expect(waiter.wakeUps).toBe(2);
  });

  it('that leaves the note alone, or is of another lock, wakes no waiter', async () => {
    const [first, second] = [open(), open()];
    const [holder, other] = [new Caller(first, 'same', 'holder#1'), new Caller(first, 'sam', 'holder#1')];
    for (const each of [holder, other]) expect((await each.claim()).granted).toBe(true);
    const waiter = new Caller(second, 'same', 'waiter#1');
    expect((await waiter.claim()).granted).toBe(false);
    await holder.renew();
    await other.renew('changed');
    await sleep(500);
    expect(waiter.wakeUps).toBe(0);
  });
});
