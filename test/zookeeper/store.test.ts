import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { counted } from '../../bench/zookeeper/counted.ts';
import { createLocks, type Locks, openLocks } from '../../src/index.ts';
import type { Store } from '../../src/store/store.ts';
import type { RawClient } from '../../src/stores/zookeeper/client.ts';
import { type ZookeeperStoreOptions, zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { permits, request } from '../../src/testing/store-case.ts';
import { nodesOf, terms } from '../faults/zookeeper/support/witness.ts';
import { cleanups } from '../support/hooks/cleanups.ts';
import { type Ensemble, STEADY, startEnsemble } from '../support/servers/zookeeper.ts';
import { later, until } from '../support/waiting/eventually.ts';
import { renewed } from '../support/waiting/renewed.ts';
import { startWaiters } from '../support/waiting/served.ts';

/**
 * Behaviour that only this store has: one session, nodes and their parents, watches, access
 * control.
 */
const CONNECTED = 3;
const EPHEMERAL_SEQUENTIAL = 3;
const atTheEnd = cleanups();
let ensemble: Ensemble;
let direct: RawClient;
beforeAll(async () => {
  ensemble = await startEnsemble({ ...STEADY, maxSessionMs: 20_000 });
  atTheEnd(() => ensemble.stop());
  direct = ensemble.client({ sessionMs: 5_000 });
});

function open(client = ensemble.client({ sessionMs: 5_000 }), options: ZookeeperStoreOptions = {}): Locks {
  const locks = createLocks(zookeeperStore(client, options), { waitMs: 20_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

function openStore(client = ensemble.client({ sessionMs: 5_000 })): Store {
  const store = zookeeperStore(client);
  atTheEnd(() => store.close());
  return store;
}

const exists = (path: string): Promise<bigint | null> =>
  new Promise((resolve) =>
    direct.exists(path, (_error, stat) => resolve(stat?.czxid.readBigInt64BE() ?? null)),
  );

/**
 * Resolves when a node of this queue was created by that transaction. The member that is asked may
 * lag behind the one that has granted the claim.
 */
const created = (name: string, fence: bigint): Promise<void> =>
  until('no node was created by that transaction', async () => {
    const nodes = await nodesOf(direct, name);
    return (await Promise.all(nodes.map((node) => exists(`/locks/${name}/${node}`)))).includes(fence);
  });

const standing = (name: string, count: number, root?: string): Promise<void> =>
  until(
    `there are not ${count} in the queue`,
    async () => (await nodesOf(direct, name, root)).length === count,
  );

describe.concurrent('one session', () => {
  it('is shared by a thousand holds, which are renewed together', async () => {
    const { client, count } = counted(ensemble.client({ sessionMs: 10_000 }));
    const locks = open(client);
    const names = Array.from({ length: 1_000 }, (_, n) => `shared-${n}`);
    // Lock nodes are created at the first use. The second round shows what every later use costs.
    for (const round of ['made', 'used'] as const) {
      const before = { ...count };
      const holds = await Promise.all(names.map((name) => locks.mutex(name).acquire()));
      if (round === 'used') {
        expect(count.creates + count.transactions - before.creates - before.transactions).toBeLessThan(200);
        const started = { ...count };
        for (const hold of holds.slice(-1)) await renewed(hold);
        expect(holds.filter((hold) => hold.remainingMs > 0)).toHaveLength(1_000);
        // Sixteen transactions renew all holds, about every three seconds. One for each hold would
        // be a thousand.
        expect(count.transactions - started.transactions).toBeLessThan(600);
      }
      expect(await locks.releaseAll()).toBe(1_000);
    }
  });

  it('a hold is never trusted for longer than the session lasts', async () => {
    const locks = open();
    const hold = await locks.mutex('trusted').acquire({ ttlMs: 60_000 });
    for (let round = 0; round < 30; round += 1) {
      expect(hold.remainingMs).toBeGreaterThan(0);
      expect(hold.remainingMs).toBeLessThan(5_000);
      await sleep(100);
    }
    await hold.release();
  });

  it('row 56: a client that was connected before is trusted for what its last ping is worth', async () => {
    const client = ensemble.client({ sessionMs: 20_000 });
    await until('not connected', () => client.getState().code === CONNECTED);
    const store = openStore(client);
    const outcome = await store.claim(request('connected-before'));
    if (!outcome.granted) throw new Error('the lock is free');
    // The client pings after a third of the time-out, and its member reports that within a quarter.
    expect(outcome.validForMs).toBeGreaterThan(0);
    expect(outcome.validForMs).toBeLessThanOrEqual(20_000 * (1 - 1 / 3 - 1 / 4));
  });

  it('row 56: a client that connects after the store was made is trusted from then on', async () => {
    const outcome = await openStore(ensemble.client({ sessionMs: 20_000 })).claim(request('connected-after'));
    expect(outcome.granted && outcome.validForMs).toBeGreaterThan(20_000 * (1 - 1 / 3 - 1 / 4));
  });

  it("a user's client stays open when the store closes, and keeps no nodes", async () => {
    const client = ensemble.client({ sessionMs: 5_000 });
    const store = zookeeperStore(client);
    await store.claim({ name: 'handed-in', id: 'a#1', ...terms });
    await store.claim({ name: 'handed-in', id: 'a#2', ...terms });
    await standing('handed-in', 2);
    await store.close();
    await until('nodes stay', async () => (await nodesOf(direct, 'handed-in')).length === 0);
    expect(client.getState().code).toBe(CONNECTED);
  });

  it('the fence is the transaction that created the node', async () => {
    const locks = open();
    const [first, second] = [await locks.mutex('fence').acquire(), later(locks.mutex('fence').acquire())];
    await created('fence', first.fence);
    await first.release();
    await created('fence', (await second).fence);
  });

  it('the fence is that also when another claim comes and goes in between', async () => {
    await (await open().mutex('raced').acquire()).release();
    const locks = open(disturbed(ensemble.client({ sessionMs: 5_000 }), '/locks/raced'));
    const hold = await locks.mutex('raced').acquire();
    await created('raced', hold.fence);
    await hold.release();
  });
});

/** A client before whose reads of `path` another claim is created and removed. */
function disturbed(client: RawClient, path: string): RawClient {
  const come = (then: () => void): void =>
    direct.create(`${path}/other__lock__`, Buffer.alloc(0), undefined, EPHEMERAL_SEQUENTIAL, (_error, node) =>
      direct.remove(node, () => then()),
    );
  return new Proxy(client, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        const go = (): unknown => value.apply(target, args);
        return key === 'exists' && args[0] === path ? come(go) : go();
      };
    },
  });
}

describe.concurrent('watches', () => {
  it('a hundred waiters are served in order, with one event each', async () => {
    const { client, count } = counted(ensemble.client({ sessionMs: 5_000 }));
    const locks = open(client);
    const lock = locks.mutex('crowded');
    const blocker = await lock.acquire();
    const { served, waiters } = startWaiters(lock, 100);
    await until('not all are in the queue', async () => (await nodesOf(direct, 'crowded')).length === 101);
    await sleep(300);
    const before = { ...count };
    await blocker.release();
    await Promise.all(waiters);
    expect(served).toEqual(served.map((_, n) => n));
    expect(count.events - before.events).toBeLessThanOrEqual(105);
  });

  it('a renewal that changes the note wakes the waiters, and only such a renewal', async () => {
    const [holder, waiters] = [openStore(), openStore()];
    const terms = { name: 'announced', mode: { kind: 'exclusive' }, ttlMs: 60_000, note: '' } as const;
    const woken = [0, 0];
    const claim = (store: Store, n: number) =>
      store.claim({ ...terms, id: `a#${n}`, wait: true, fenceAbove: 0n }, undefined, {
        wake: () => {
          woken[n - 1] = (woken[n - 1] ?? 0) + 1;
        },
      });
    expect(await claim(holder, 0)).toMatchObject({ granted: true });
    for (const n of [1, 2]) expect(await claim(waiters, n)).toMatchObject({ granted: false });
    const renew = (note?: string) => holder.renew({ name: 'announced', id: 'a#0' }, { ttlMs: 60_000, note });
    expect(await renew()).toMatchObject({ held: true });
    await sleep(300);
    expect(woken).toEqual([0, 0]);
    for (const note of ['one', 'two']) {
      const before = [...woken];
      expect(await renew(note)).toMatchObject({ held: true });
      await until('a waiter was not woken', () => woken.every((count, n) => count > (before[n] ?? 0)));
      // They watch again: this read was sent after that.
      await waiters.read('announced');
    }
  });

  it('a waiter is woken by the end of a hold also after the note of the hold has changed', async () => {
    const store = openStore();
    const terms = { name: 'noted', mode: { kind: 'exclusive' }, ttlMs: 60_000, note: '' } as const;
    let woken = 0;
    const wake = (): void => {
      woken += 1;
    };
    const ask = (id: string) =>
      store.claim({ ...terms, id, wait: true, fenceAbove: 0n }, undefined, { wake });
    await ask('a#1');
    await ask('a#2');
    for (const note of ['one', 'two'])
      expect(await store.renew({ name: 'noted', id: 'a#1' }, { ttlMs: 60_000, note })).toMatchObject({
        held: true,
      });
    expect(await ask('a#2')).toMatchObject({ granted: false });
    const before = woken;
    await store.release({ name: 'noted', id: 'a#1' });
    await until('the waiter was not woken', () => woken > before);
  });

  it('row 18: in a long queue, claims that ask again do not read it, and the next is granted', async () => {
    const client = ensemble.client({ sessionMs: 5_000 });
    let lists = 0;
    const counting = new Proxy(client, {
      get(target, key) {
        if (key === 'getChildren') lists += 1;
        const value: unknown = Reflect.get(target, key);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const store = openStore(counting);
    const terms = { mode: { kind: 'exclusive' }, ttlMs: 60_000, note: '', fenceAbove: 0n } as const;
    const requests = Array.from({ length: 200 }, (_, n) => ({
      name: 'crowd',
      id: `me#${n}`,
      ...terms,
      wait: true,
    }));
    const [holder, next] = requests;
    if (holder === undefined || next === undefined) throw new Error('there are no requests');
    const entered = await Promise.all(requests.map((request) => store.claim(request)));
    expect(entered.filter(({ granted }) => granted)).toHaveLength(1);
    const before = lists;
    const again = await Promise.all(requests.slice(1).map((request) => store.claim(request)));
    expect(again.filter(({ granted }) => granted)).toHaveLength(0);
    expect(lists - before).toBe(0);
    expect(await store.release(holder)).toBe(true);
    expect((await store.claim(next)).granted).toBe(true);
  });

  it('a permit that is released before the waiter watches the queue wakes the waiter', async () => {
    // The same member, because another one may lag behind, and would report the release to the watch.
    const address = ensemble.members[0]?.address ?? '';
    const client = ensemble.client({ address, sessionMs: 5_000 });
    const [holder, waiting] = [openStore(ensemble.client({ address, sessionMs: 5_000 })), openStore(client)];
    const terms = { mode: permits(1, 1), wait: true };
    const [held, wanted] = [request('in-between', terms), request('in-between', terms)];
    expect((await holder.claim(held)).granted).toBe(true);
    let released: Promise<boolean> | undefined;
    const getChildren = client.getChildren.bind(client) as (...args: unknown[]) => void;
    client.getChildren = (...args: unknown[]): void => {
      const isFirstWatch = typeof args[1] === 'function' && released === undefined;
      if (!isFirstWatch) getChildren(...args);
      else released = holder.release(held).finally(() => getChildren(...args));
    };
    let woken = 0;
    const wake = (): void => {
      woken += 1;
    };
    expect((await waiting.claim(wanted, undefined, { wake })).granted).toBe(false);
    expect(await released).toBe(true);
    await until('the waiter was not woken', () => woken > 0, 5_000);
    expect((await waiting.claim(wanted)).granted).toBe(true);
  });

  it('a released permit wakes the first waiter, not all of them', async () => {
    const locks = open();
    const semaphore = locks.semaphore('permits', { permits: 2 });
    const holds = [await semaphore.acquire(), await semaphore.acquire()];
    const { client, count } = counted(ensemble.client({ sessionMs: 5_000 }));
    const waiting = Array.from({ length: 20 }, () =>
      open(client).semaphore('permits', { permits: 2 }).acquire(),
    );
    await until('not all are in the queue', async () => (await nodesOf(direct, 'permits')).length === 22);
    await until('the waiters never stop asking', async () => {
      const idle = count.transactions;
      await sleep(300);
      return count.transactions - idle <= 4;
    });
    const before = { ...count };
    await holds[0]?.release();
    await Promise.race(waiting);
    await sleep(200);
    expect(count.transactions - before.transactions).toBeLessThan(45);
    await holds[1]?.release();
    for (const each of waiting) await (await each).release();
  });
});

describe.concurrent('nodes', () => {
  it('lock names are node names, except for characters that ZooKeeper refuses', async () => {
    const locks = open(undefined, { root: '/' });
    for (const [name, node] of [
      ['x y', 'x y'],
      ['.', '%2E'],
      ['..', '%2E%2E'],
      ['a/b', 'a%2Fb'],
      ['50%', '50%25'],
      ['🔒', '%F0%9F%94%92'],
      ['zookeeper', '%7Aookeeper'],
    ] as const) {
      const hold = await locks.mutex(name).acquire();
      await until(`there is no ${node}`, async () => (await exists(`/${node}`)) !== null);
      expect((await locks.inspect(name)).holders).toHaveLength(1);
      await hold.release();
    }
  });

  it('a lock leaves its node behind, unless the store created it and removes empty ones', async () => {
    const [left, cleaned] = [open(), open(undefined, { removeEmpty: true })];
    await (await left.mutex('left').acquire()).release();
    await (await cleaned.mutex('left').acquire()).release();
    const [first, second] = [await cleaned.mutex('cleaned').acquire(), cleaned.mutex('cleaned').acquire()];
    await first.release();
    await (await second).release();
    await until('the node stays', async () => (await exists('/locks/cleaned')) === null);
    expect(await exists('/locks/left')).not.toBeNull();
    const again = await cleaned.mutex('cleaned').acquire();
    expect(again.fence).toBeGreaterThan((await second).fence);
    await again.release();
  });

  it('a client with a chroot works below it, although its node did not exist', async () => {
    const client = ensemble.client({ address: `${ensemble.address}/team-a`, sessionMs: 5_000 });
    const hold = await open(client).mutex('job').acquire();
    await standing('job', 1, '/team-a/locks');
    expect(await open().mutex('job').tryAcquire()).not.toBeNull();
    await hold.release();
  });

  it('a store of a URL uses its chroot, root and session time-out, and closes its client', async () => {
    const locks = await openLocks(`${ensemble.url}/team-b/x?sessionMs=15000&root=/jobs`);
    const hold = await locks.mutex('job').acquire();
    expect(hold.remainingMs).toBeLessThanOrEqual(15_000);
    await standing('job', 1, '/team-b/x/jobs');
    await renewed(hold);
    await locks.close({ drainMs: 0 });
    // Sooner than the session would end.
    const isGone = async (): Promise<boolean> =>
      (await nodesOf(direct, 'job', '/team-b/x/jobs')).length === 0;
    await until('the node stays', isGone, 9_000);
  });

  it('with a user in the URL, other users can neither see nor evict its claims', async () => {
    const url = ensemble.url.replace('://', '://ann:s%3Acret@');
    const locks = await openLocks(`${url}/private`);
    atTheEnd(() => locks.close({ drainMs: 0 }));
    const hold = await locks.mutex('job').acquire();
    const stranger = open(undefined, { root: '/private/locks' });
    await expect(stranger.inspect('job')).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    await expect(stranger.mutex('job').tryAcquire()).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    await expect(stranger.evict('job', { id: hold.id })).rejects.toMatchObject({ code: 'STORE' });
    const same = await openLocks(`${url}/private`);
    atTheEnd(() => same.close({ drainMs: 0 }));
    expect(await same.mutex('job').tryAcquire()).toBeNull();
    await hold.release();
  });
});
