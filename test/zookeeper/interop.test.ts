import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { createLocks, type Lockable, type Locks, openLocks } from '../../src/index.ts';
import type { RawClient } from '../../src/stores/zookeeper/client.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { nodesOf } from '../faults/zookeeper/support/witness.ts';
import { cleanups } from '../support/hooks/cleanups.ts';
import { type Kazoo, type KazooKind, startKazoo } from '../support/servers/kazoo.ts';
import { type Ensemble, STEADY, startEnsemble } from '../support/servers/zookeeper.ts';
import { later, until } from '../support/waiting/eventually.ts';

/** kazoo's locks under `/locks` are the locks of the store. */
const atTheEnd = cleanups();
let ensemble: Ensemble;
let kazoo: Kazoo;
let client: RawClient;
let locks: Locks;
beforeAll(async () => {
  ensemble = await startEnsemble(STEADY);
  atTheEnd(() => ensemble.stop());
  kazoo = await startKazoo(ensemble.address);
  atTheEnd(() => kazoo.stop());
  client = ensemble.client({ sessionMs: 5_000 });
  locks = createLocks(zookeeperStore(client), { waitMs: 20_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
});

const queueOf = (name: string): Promise<readonly string[]> => nodesOf(client, name);
const standing = (name: string, count: number): Promise<void> =>
  until(`there are not ${count} in the queue`, async () => (await queueOf(name)).length === count);

describe.concurrent('kazoo and Holdfast exclude each other', () => {
  const ours = {
    mutex: (name: string): Lockable => locks.mutex(name),
    reader: (name: string): Lockable => locks.readWriteLock(name).read,
    writer: (name: string): Lockable => locks.readWriteLock(name).write,
  };
  const cases: readonly [KazooKind, keyof typeof ours, boolean, boolean][] = [
    // kazoo's kind, Holdfast's kind, whether Holdfast is refused while kazoo holds, and the
    // reverse.
    ['Lock', 'mutex', true, true],
    ['Lock', 'reader', true, false],
    ['WriteLock', 'mutex', true, true],
    ['WriteLock', 'writer', true, true],
    ['WriteLock', 'reader', true, true],
    ['ReadLock', 'mutex', true, true],
    ['ReadLock', 'writer', true, true],
    ['ReadLock', 'reader', false, false],
  ];
  for (const [theirs, kind, shutsUsOut, isShutOut] of cases) {
    it(`kazoo's ${theirs} and Holdfast's ${kind}`, async () => {
      const name = `${theirs}-${kind}`;
      await kazoo.take(`${name}-1`, theirs, `/locks/${name}`);
      const tried = await ours[kind](name).tryAcquire();
      expect(tried === null).toBe(shutsUsOut);
      await tried?.release();
      await kazoo.release(`${name}-1`);
      const hold = await ours[kind](name).acquire();
      expect(await kazoo.try(`${name}-2`, theirs, `/locks/${name}`)).toBe(!isShutOut);
      await hold.release();
    });
  }

  it('hand off to each other, first come, first served', async () => {
    const order: string[] = [];
    const hold = await locks.mutex('one-queue').acquire();
    const theirs = kazoo.take('queue-1', 'Lock', '/locks/one-queue').then(() => order.push('theirs'));
    await standing('one-queue', 2);
    const mine = locks.mutex('one-queue').acquire();
    void mine.then(() => order.push('ours'));
    await standing('one-queue', 3);
    const last = kazoo.take('queue-2', 'Lock', '/locks/one-queue').then(() => order.push('theirs again'));
    await standing('one-queue', 4);
    await hold.release();
    await theirs;
    await sleep(100);
    expect(order).toEqual(['theirs']);
    await kazoo.release('queue-1');
    const next = await mine;
    expect(next.fence).toBeGreaterThan(hold.fence);
    expect(order).toEqual(['theirs', 'ours']);
    await next.release();
    await last;
    await kazoo.release('queue-2');
  });

  it('also under unusual names that need no escape', async () => {
    for (const name of ['x y', 'é:#*?', '...', '名']) {
      await kazoo.take(`odd ${name}`.replaceAll(' ', '_'), 'Lock', `/locks/${name}`);
      expect(await locks.mutex(name).tryAcquire(), name).toBeNull();
      await kazoo.release(`odd ${name}`.replaceAll(' ', '_'));
      expect(await locks.mutex(name).tryAcquire(), name).not.toBeNull();
    }
  });

  it('see each other: a kazoo lock is shown with its identifier, and can be evicted', async () => {
    await kazoo.take('seen-1', 'Lock', '/locks/seen', 'batch-7');
    const { holders, kind } = await locks.inspect('seen');
    expect(kind).toBe('exclusive');
    expect(holders).toMatchObject([{ owner: 'batch-7', metadata: null }]);
    const waiting = later(locks.mutex('seen').acquire());
    await standing('seen', 2);
    expect(await locks.evict('seen', { id: holders[0]?.id ?? '' })).toBe(true);
    await (await waiting).release();
  });

  it('keep the lock node: kazoo fails when it vanishes', async () => {
    await kazoo.take('parent-1', 'Lock', '/locks/parent');
    await kazoo.release('parent-1');
    await (await locks.mutex('parent').acquire()).release();
    await kazoo.take('parent-1', 'Lock', '/locks/parent');
    await kazoo.release('parent-1');
  });

  it('do not deadlock: Holdfast readers and writers around a kazoo lock are all granted', async () => {
    const lock = locks.readWriteLock('circle');
    const hold = await lock.write.acquire();
    const order: string[] = [];
    const enter = async (what: string, side: Lockable): Promise<void> => {
      const own = await side.acquire();
      order.push(what);
      await sleep(20);
      await own.release();
    };
    const all = [
      enter('reader', lock.read),
      enter('writer', lock.write),
      enter('reader', lock.read),
      enter('writer', lock.write),
    ];
    await standing('circle', 5);
    await hold.release();
    await Promise.all(all);
    expect(order).toEqual(['reader', 'writer', 'reader', 'writer']);
  });

  it('a claim whose data may not be read is shown without it, and the others with theirs', async () => {
    const hold = await locks.mutex('private').acquire({ metadata: { job: 7 } });
    const other = await openLocks(ensemble.url.replace('://', '://ann:secret@'));
    atTheEnd(() => other.close({ drainMs: 0 }));
    const waiting = later(other.mutex('private').acquire({ metadata: { job: 8 } }));
    await standing('private', 2);
    const { holders, waiters } = await locks.inspect('private');
    expect(holders).toMatchObject([{ id: hold.id, metadata: { job: 7 } }]);
    expect(waiters).toMatchObject([{ metadata: null }]);
    await hold.release();
    expect((await locks.inspect('private')).holders).toMatchObject([{ fence: null, metadata: null }]);
    await (await waiting).release();
  });
});
