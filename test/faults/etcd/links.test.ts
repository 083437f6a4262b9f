import { setTimeout as sleep } from 'node:timers/promises';
import type { Etcd3 } from 'etcd3';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { createLocks, type Hold, type Locks } from '../../../src/index.ts';
import { etcdStore } from '../../../src/stores/etcd/index.ts';
import { request } from '../../../src/testing/store-case.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { cleanups } from '../../support/hooks/cleanups.ts';
import { type EtcdCluster, startEtcdCluster } from '../../support/servers/etcd.ts';
import { turns } from '../../support/waiting/event-loop-turns.ts';
import { later, until } from '../../support/waiting/eventually.ts';
import { firstRenewed, renewed } from '../../support/waiting/renewed.ts';
import { expectLostInTime, witness } from './support/witness.ts';

/** Connections that fail between a client and a healthy cluster. */
// Nearly all of the time is spent waiting.
vi.setConfig({ maxConcurrency: 4 });
const atTheEnd = cleanups();
let cluster: EtcdCluster;
let direct: Etcd3;
beforeAll(async () => {
  cluster = await startEtcdCluster();
  atTheEnd(() => cluster.stop());
  direct = cluster.client();
});

function locksOn(client: Etcd3): Locks {
  const locks = createLocks(etcdStore(client), { waitMs: 30_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

/** Locks whose every connection goes through proxies, one for each member. */
async function proxied(): Promise<{
  locks: Locks;
  proxies: FaultProxy[];
  every(fault: (proxy: FaultProxy) => void): void;
}> {
  const proxies = await Promise.all(cluster.members.map((member) => startFaultProxy(member.port)));
  atTheEnd(async () => void (await Promise.all(proxies.map((proxy) => proxy.stop()))));
  const client = cluster.client({ hosts: proxies.map((proxy) => `http://127.0.0.1:${proxy.port}`) });
  return { locks: locksOn(client), proxies, every: (fault) => proxies.forEach(fault) };
}

const keysOf = async (name: string): Promise<string[]> =>
  await direct.getAll().prefix(`holdfast/${name}/`).keys();

/**
 * A lock that one client holds, and for which a waiter is in the queue whose connections can fail.
 */
async function proxiedWaiter(name: string): Promise<{
  every(fault: (proxy: FaultProxy) => void): void;
  holder: Hold;
  waiting: Promise<Hold>;
}> {
  const { locks, every } = await proxied();
  const holder = await locksOn(cluster.client()).mutex(name).acquire();
  const waiting = later(locks.mutex(name).acquire());
  await until('nobody waits', async () => (await keysOf(name)).length === 2);
  await sleep(300);
  return { every, holder, waiting };
}

async function leaseOf(name: string, id: string): Promise<string> {
  const { kvs } = await direct.kv.range({ key: Buffer.from(`holdfast/${name}/x~${id}`) });
  return kvs[0]?.lease ?? '0';
}

/** Connects to every member and has a lease ready, so that the next claim is one request. */
async function warm(locks: Locks, ttlMs: number): Promise<void> {
  const rounds = Array.from({ length: 20 }, (_, n) => `warm-${ttlMs}-${n}`);
  for (const name of rounds) await (await locks.mutex(name).acquire({ ttlMs })).release();
}

describe.concurrent('a link to etcd fails', () => {
  for (const way of ['both', 'toClient', 'toServer'] as const) {
    it(`row 52: ${way} dropped: a hold is lost by its own deadline, before another holds`, async () => {
      const { locks, every } = await proxied();
      const others = locksOn(cluster.client());
      const seen = await firstRenewed((round) =>
        witness(locks, others, direct, `swallow-${way}-${round}`, 2_500),
      );
      every((proxy) => proxy.drop(way));
      const next = await seen.next;
      expectLostInTime(seen, next);
      every((proxy) => proxy.pass());
      expect(await next.hold.release()).toBe(true);
    });
  }

  it('row 52: a hold on a shared lease has the time left of that lease, not the full time', async () => {
    for (let round = 0; ; round += 1) {
      const { locks, every } = await proxied();
      const older = await locks.mutex(`older-${round}`).acquire({ ttlMs: 6_000 });
      await sleep(300);
      const name = `younger-${round}`;
      const seen = await witness(locks, locksOn(cluster.client()), direct, name, 6_000);
      const leases = [await leaseOf(older.name, older.id), await leaseOf(name, seen.hold.id)];
      // The lease is shared for a sixteenth of its time. On a machine that pauses at the wrong
      // moment there may be two leases.
      if (leases[0] !== leases[1] && round < 10) continue;
      expect(leases[0]).toBe(leases[1]);
      expect(seen.grantedMs).toBeLessThan(5_700);
      every((proxy) => proxy.drop('both'));
      expectLostInTime(seen, await seen.next);
      every((proxy) => proxy.pass());
      return;
    }
  });

  it('row 52: a hold is not moved to a lease that ends before it, while no keep-alive arrives', async () => {
    const client = cluster.client();
    let isCut = false;
    const leaseKeepAlive = async (): Promise<unknown> => {
      if (isCut) throw new Error('14 UNAVAILABLE: the link broke');
      return await client.leaseClient.leaseKeepAlive();
    };
    const leaseClient = new Proxy(client.leaseClient, {
      get: (target, key) =>
        key === 'leaseKeepAlive' ? leaseKeepAlive : Reflect.get(target, key).bind(target),
    });
    const { kv, watchClient } = client;
    const locks = createLocks(etcdStore({ kv, watchClient, leaseClient }), { ttlMs: 12_000 });
    atTheEnd(() => locks.close({ drainMs: 0 }));
    const older = await locks.mutex('kept-older').acquire();
    await older.extend(12_000);
    await sleep(1_000);
    const younger = await locks.mutex('kept-younger').acquire();
    const before = await leaseOf('kept-younger', younger.id);
    expect(before).not.toBe(await leaseOf('kept-older', older.id));
    isCut = true;
    await expect(younger.extend(12_000)).rejects.toMatchObject({ code: 'STORE' });
    expect(await leaseOf('kept-younger', younger.id)).toBe(before);
    isCut = false;
    // It then shares the lease of the other hold.
    await younger.extend(12_000);
    expect(await leaseOf('kept-younger', younger.id)).toBe(await leaseOf('kept-older', older.id));
    expect(await locks.releaseAll()).toBe(2);
  });

  it('a client that has stopped asking says why, also after another call was refused', async () => {
    const [live, dead] = [cluster.client(), cluster.client({ hosts: 'http://127.0.0.1:1' })];
    let isDead = true;
    const txn = (sent: object, options?: object): Promise<unknown> =>
      (isDead ? dead : live).kv.txn(sent as never, options as never);
    const { leaseClient, watchClient } = live;
    const store = etcdStore({ kv: { txn }, leaseClient, watchClient });
    atTheEnd(() => store.close());
    const claim = (name: string) => store.claim(request(name));
    for (const _ of [1, 2, 3]) await expect(claim('unreachable')).rejects.toThrow('ECONNREFUSED');
    isDead = false;
    const first = request('on-the-lease');
    await store.claim(first);
    await direct.leaseClient.leaseRevoke({ ID: await leaseOf('on-the-lease', first.id) });
    // The revoked lease is refused, and the claim is made again on another.
    expect(await claim('on-the-next-lease')).toMatchObject({ granted: true });
    isDead = true;
    await expect(claim('unreachable')).rejects.toThrow('ECONNREFUSED');
  });

  it('row 52: a link that is cut and comes back costs no hold', async () => {
    const { locks, every } = await proxied();
    const hold = await locks.mutex('cut').acquire({ ttlMs: 6_000 });
    for (let round = 0; round < 4; round += 1) {
      every((proxy) => proxy.cut());
      await sleep(400);
    }
    await renewed(hold);
    expect(await hold.release()).toBe(true);
  });

  it('row 53: a release whose reply is lost has happened, and does not end the next hold', async () => {
    const { locks, every } = await proxied();
    await warm(locks, 10_000);
    const hold = await locks.mutex('lost-delete').acquire({ ttlMs: 10_000 });
    every((proxy) => proxy.holdReplies());
    const released = hold.release();
    const other = await locksOn(cluster.client()).mutex('lost-delete').acquire();
    every((proxy) => proxy.cut());
    every((proxy) => proxy.pass());
    expect(await released).toBe(true);
    expect(await hold.release()).toBe(false);
    other.assertHeld();
    expect(await keysOf('lost-delete')).toHaveLength(1);
    expect(await other.release()).toBe(true);
  });

  it('row 20: a claim whose reply is lost is one claim, and is ours', async () => {
    const { locks, every } = await proxied();
    await warm(locks, 10_000);
    every((proxy) => proxy.holdReplies());
    const acquired = later(locks.mutex('lost-claim').acquire({ ttlMs: 10_000 }));
    await until('the claim did not arrive', async () => (await keysOf('lost-claim')).length === 1);
    every((proxy) => proxy.cut());
    every((proxy) => proxy.pass());
    const hold = await acquired;
    expect(await keysOf('lost-claim')).toHaveLength(1);
    expect(await hold.release()).toBe(true);
    expect(await keysOf('lost-claim')).toHaveLength(0);
  });

  it('row 10: a wait that is aborted while its claim is pending leaves nothing behind', async () => {
    const { locks, every } = await proxied();
    await warm(locks, 20_000);
    every((proxy) => proxy.holdReplies());
    const controller = new AbortController();
    const acquired = later(locks.mutex('abort').acquire({ signal: controller.signal, ttlMs: 20_000 }));
    await until('the claim did not arrive', async () => (await keysOf('abort')).length === 1);
    controller.abort(new Error('enough'));
    await expect(acquired).rejects.toThrow('enough');
    every((proxy) => proxy.pass());
    await until('the claim was left behind', async () => (await keysOf('abort')).length === 0);
  });

  it('row 54: a waiter whose watch was compacted while it was cut off still gets the lock', async () => {
    const { every, holder, waiting } = await proxiedWaiter('compacted');
    every((proxy) => proxy.refuse());
    every((proxy) => proxy.cut());
    await holder.release();
    const { header } = await direct.put('compaction').value('now');
    await direct.kv.compact({ revision: header.revision, physical: true });
    every((proxy) => proxy.pass());
    const startedAt = performance.now();
    const hold = await waiting;
    // A waiter that was not woken would ask again after ten seconds.
    expect(performance.now() - startedAt).toBeLessThan(9_000);
    await hold.release();
  });

  it('row 54: a watch over a dead connection is noticed, and the waiter is woken', async () => {
    const { every, holder, waiting } = await proxiedWaiter('dead-watch');
    every((proxy) => proxy.drop('both'));
    await holder.release();
    await sleep(500);
    every((proxy) => proxy.pass());
    const startedAt = performance.now();
    await (await waiting).release();
    expect(performance.now() - startedAt).toBeLessThan(20_000);
  });
});

describe.concurrent('leases are revoked and keys are deleted from outside', () => {
  it('row 49: a waiter whose lease was revoked is not granted, and enters the queue again', async () => {
    const store = etcdStore(cluster.client());
    atTheEnd(() => store.close());
    const wanted = (id: string) => request('revoked-waiter', { id, ttlMs: 20_000, wait: true });
    // Each has a client of its own, so that they share no lease.
    const others = [etcdStore(cluster.client()), etcdStore(cluster.client())] as const;
    atTheEnd(async () => void (await Promise.all(others.map((other) => other.close()))));
    const [holder, waiter, later] = [wanted('holder#a'), wanted('waiter#b'), wanted('later#c')];
    await others[0].claim(holder);
    let woken = 0;
    const wake = (): void => {
      woken += 1;
    };
    expect((await store.claim(waiter, undefined, { wake })).granted).toBe(false);
    expect((await others[1].claim(later)).granted).toBe(false);
    await direct.leaseClient.leaseRevoke({ ID: await leaseOf('revoked-waiter', 'waiter#b') });
    await until('the waiter was not woken', () => woken > 0);
    await others[0].release(holder);
    // Nothing is ahead of its old queue position, but the next waiter holds the lock.
    expect((await store.claim(waiter)).granted).toBe(false);
    const granted = await others[1].claim(later);
    expect(granted.granted).toBe(true);
    await others[1].release(later);
    const last = await store.claim(waiter);
    expect(last.granted && granted.granted && last.fence > granted.fence).toBe(true);
  });

  it('row 51: a hold whose lease was revoked is lost within one renewal, despite keep-alives', async () => {
    const locks = locksOn(cluster.client());
    const hold = await locks.mutex('revoked').acquire({ ttlMs: 6_000 });
    await direct.leaseClient.leaseRevoke({ ID: await leaseOf('revoked', hold.id) });
    const startedAt = performance.now();
    await until('the holder was not notified', () => hold.signal.aborted);
    // The hold is renewed about every two seconds.
    expect(performance.now() - startedAt).toBeLessThan(6_000);
    expect(hold.signal.reason).toMatchObject({ how: 'taken' });
  });

  it('row 51: a key that was deleted, or created again by another program, is not held', async () => {
    const locks = locksOn(cluster.client());
    const hold = await locks.mutex('remade').acquire({ ttlMs: 6_000 });
    const key = `holdfast/remade/x~${hold.id}`;
    await direct.delete().key(key);
    await direct.put(key).value('');
    await until('the holder was not notified', () => hold.signal.aborted);
    expect(hold.signal.reason).toMatchObject({ how: 'taken' });
    // Nor does a release remove the other program's key.
    expect(await hold.release()).toBe(false);
    expect(await direct.get(key)).not.toBeNull();
    await direct.delete().key(key);
  });

  it('row 54b: one second is asked for and two are granted: the hold counts the granted time', async () => {
    const locks = locksOn(cluster.client());
    const others = locksOn(cluster.client());
    for (let round = 0; ; round += 1) {
      const name = `short-${round}`;
      const seen = await witness(locks, others, direct, name, 1_000);
      const { TTL, grantedTTL } = await direct.leaseClient.leaseTimeToLive({
        ID: await leaseOf(name, seen.hold.id),
      });
      // A machine that pauses meanwhile takes away the time, or the hold.
      if ((seen.hold.signal.aborted || seen.grantedMs <= 1_000) && round < 4) continue;
      expect([TTL, grantedTTL]).toContain('2');
      expect(seen.grantedMs).toBeGreaterThan(1_000);
      expect(seen.grantedMs).toBeLessThanOrEqual(2_000);
      break;
    }
    const unrenewed = await locks.mutex('unrenewed').acquire({ ttlMs: 1_000, renew: false });
    let lostAt = Number.POSITIVE_INFINITY;
    unrenewed.signal.addEventListener('abort', () => {
      lostAt = performance.now();
    });
    await until('it did not run out', async () => (await keysOf('unrenewed')).length === 0);
    await turns();
    expect(lostAt).toBeLessThan(performance.now());
  });
});
