import { setTimeout as sleep } from 'node:timers/promises';
import type { Etcd3 } from 'etcd3';
import { describe, expect, it, vi } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { type EtcdClient, etcdStore } from '../../../src/stores/etcd/index.ts';
import { request } from '../../../src/testing/store-case.ts';
import { startOneMember } from '../../etcd/support/one-member.ts';
import { startEtcdCluster } from '../../support/servers/etcd.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';
import { renewed } from '../../support/waiting/renewed.ts';

/**
 * Requests that take effect after their callers have given up. Requests in the log of a leader
 * without a majority can do that.
 */
// Nearly all of the time is spent waiting.
vi.setConfig({ maxConcurrency: 4 });
const { cluster, direct, atTheEnd } = await startOneMember();

const textOf = (request: object): string =>
  JSON.stringify(request, (_, value) =>
    value?.type === 'Buffer' ? Buffer.from(value.data).toString() : value,
  );

/**
 * A client whose transactions of this lock fail at once, and still reach the cluster a little
 * later.
 */
function lateFor(
  client: Etcd3,
  isLate: (request: string) => boolean,
  lateMs = 500,
): { late: EtcdClient; arrived(): Promise<unknown> } {
  const sent: Promise<unknown>[] = [];
  const txn = async (request: object, options?: object): Promise<unknown> => {
    if (!isLate(textOf(request))) return await client.kv.txn(request as never, options as never);
    sent.push(
      sleep(lateMs)
        .then(() => client.kv.txn(request as never))
        .catch(() => {}),
    );
    throw new Error('14 UNAVAILABLE: the link broke');
  };
  const { leaseClient, watchClient } = client;
  return { late: { leaseClient, watchClient, kv: { txn } }, arrived: () => Promise.all(sent) };
}

const isThere = async (name: string): Promise<boolean> =>
  (await direct.getAll().prefix(`holdfast/${name}/`).keys()).length > 0;

describe.concurrent('a request arrives late', () => {
  it('a claim that was given up ends with its lease, though others of its process live on', async () => {
    const isLate = (text: string): boolean => text.includes('/unwanted/') && text.includes('request_put');
    const { late, arrived } = lateFor(cluster.client(), isLate);
    const store = etcdStore(late);
    const locks = createLocks(store, { ttlMs: 6_000 });
    atTheEnd(() => locks.close({ drainMs: 0 }));
    const other = await locks.mutex('goes-on').acquire();
    const wanted = request('unwanted', { id: 'me#1', ttlMs: 6_000 });
    await expect(store.claim(wanted)).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
    expect(await store.release(wanted)).toBe(false);
    await arrived();
    expect(await isThere('unwanted')).toBe(true);
    const appearedAt = performance.now();
    while (await isThere('unwanted')) {
      // etcd checks twice a second for leases that have ended.
      expect(performance.now() - appearedAt).toBeLessThan(20_000);
      await sleep(50);
    }
    // The other claim was renewed meanwhile, and has moved to another lease.
    await renewed(other);
    expect(await other.release()).toBe(true);
  });

  it('a claim that is sent again by the same id is found, and is one claim', async () => {
    let spoiled = false;
    const isLate = (text: string): boolean => {
      if (spoiled || !text.includes('/again/') || !text.includes('request_put')) return false;
      spoiled = true;
      return true;
    };
    const { late, arrived } = lateFor(cluster.client(), isLate);
    const locks = createLocks(etcdStore(late), { ttlMs: 5_000 });
    atTheEnd(() => locks.close({ drainMs: 0 }));
    const hold = await locks.mutex('again').acquire();
    await arrived();
    expect(await direct.getAll().prefix('holdfast/again/').keys()).toHaveLength(1);
    expect(await hold.release()).toBe(true);
    expect(await isThere('again')).toBe(false);
  });

  it('row 12: a renewal that arrives after the release creates nothing', async () => {
    const isLate = (text: string): boolean => text.includes('/renewed/') && text.includes('ignore_value');
    const { late, arrived } = lateFor(cluster.client(), isLate);
    const locks = createLocks(etcdStore(late), { ttlMs: 5_000 });
    atTheEnd(() => locks.close({ drainMs: 0 }));
    const hold = await locks.mutex('renewed').acquire();
    await expect(hold.extend(8_000)).rejects.toMatchObject({ code: 'STORE' });
    expect(await hold.release()).toBe(true);
    await arrived();
    expect(await isThere('renewed')).toBe(false);
  });

  it('a renewal that arrives after the next one does not move the hold back to its lease', async () => {
    let isSpoiled = false;
    const isLate = (text: string): boolean => {
      if (isSpoiled || !text.includes('/back/') || !text.includes('ignore_value')) return false;
      isSpoiled = true;
      return true;
    };
    const { late, arrived } = lateFor(cluster.client(), isLate, 1_500);
    const locks = createLocks(etcdStore(late), { ttlMs: 60_000 });
    atTheEnd(() => locks.close({ drainMs: 0 }));
    const hold = await locks.mutex('back').acquire();
    await expect(hold.extend(6_000)).rejects.toMatchObject({ code: 'STORE' });
    await hold.extend(60_000);
    await arrived();
    const { kvs } = await direct.kv.range({ key: Buffer.from(`holdfast/back/x~${hold.id}`) });
    const { grantedTTL } = await direct.leaseClient.leaseTimeToLive({ ID: kvs[0]?.lease ?? '0' });
    expect(Number(grantedTTL)).toBe(60);
    expect(await hold.release()).toBe(true);
  });

  it('the move of a waiter to its short lease does not shorten the hold that it has become', async () => {
    let isSpoiled = false;
    const isLate = (text: string): boolean => {
      if (isSpoiled || !text.includes('/moved/') || !text.includes('ignore_value')) return false;
      isSpoiled = true;
      return true;
    };
    const { late, arrived } = lateFor(cluster.client(), isLate, 5_000);
    const [locks, others] = [createLocks(etcdStore(late)), createLocks(etcdStore(cluster.client()))];
    atTheEnd(() => Promise.all([locks.close({ drainMs: 0 }), others.close({ drainMs: 0 })]));
    const holder = await others.mutex('moved').acquire();
    const waiting = later(locks.mutex('moved').acquire({ ttlMs: 60_000 }));
    await eventually('the claim waits, and has asked again', async () => {
      const { kvs } = await direct.kv.range({
        key: Buffer.from('holdfast/moved/'),
        range_end: Buffer.from('holdfast/moved0'),
      });
      return isSpoiled && kvs.some((kv) => kv.version !== '1');
    });
    await holder.release();
    const hold = await waiting;
    await arrived();
    const { kvs } = await direct.kv.range({ key: Buffer.from(`holdfast/moved/x~${hold.id}`) });
    const { grantedTTL } = await direct.leaseClient.leaseTimeToLive({ ID: kvs[0]?.lease ?? '0' });
    expect(Number(grantedTTL)).toBe(60);
    expect(await hold.release()).toBe(true);
  });

  it('a repeated entry into the queue does not change the lease of the later hold', async () => {
    const client = cluster.client();
    let repeated: Promise<unknown> | null = null;
    const txn = (request: object, options?: object): Promise<unknown> => {
      const text = textOf(request);
      if (text.includes('/repeated/') && text.includes('request_put'))
        repeated ??= sleep(4_000).then(() => client.kv.txn(request as never));
      return client.kv.txn(request as never, options as never);
    };
    const { leaseClient, watchClient } = client;
    const locks = createLocks(etcdStore({ kv: { txn }, leaseClient, watchClient }));
    const others = createLocks(etcdStore(cluster.client()));
    atTheEnd(() => Promise.all([locks.close({ drainMs: 0 }), others.close({ drainMs: 0 })]));
    const holder = await others.mutex('repeated').acquire();
    const waiting = later(locks.mutex('repeated').acquire());
    // Another claim keeps the lease with which this one entered in use, so that the hold gets
    // another.
    await locks.mutex('beside').acquire({ renew: false });
    await eventually('the claim waits', async () => (await others.inspect('repeated')).waiters.length === 1);
    await sleep(2_500);
    await holder.release();
    const hold = await waiting;
    const leaseOf = async (): Promise<string | undefined> =>
      (await direct.kv.range({ key: Buffer.from(`holdfast/repeated/x~${hold.id}`) })).kvs[0]?.lease;
    const before = await leaseOf();
    expect(before).toBeDefined();
    await repeated;
    expect(await leaseOf()).toBe(before);
    expect(await hold.release()).toBe(true);
  });

  it('a hold that was moved unseen and lost by time in an outage does not live on', async () => {
    const client = cluster.client();
    let link: 'up' | 'loses replies' | 'down' = 'up';
    const txn = async (request: object, options?: object): Promise<unknown> => {
      if (link === 'down') throw new Error('14 UNAVAILABLE: the link is down');
      const reply = await client.kv.txn(request as never, options as never);
      if (link === 'up') return reply;
      throw new Error('14 UNAVAILABLE: the link broke');
    };
    const { leaseClient, watchClient } = client;
    const store = etcdStore({ kv: { txn }, leaseClient, watchClient });
    atTheEnd(() => store.close());
    const [other, lost] = [request('lives-on', { ttlMs: 60_000 }), request('unseen', { ttlMs: 2_000 })];
    await store.claim(other);
    await store.renew(other, { ttlMs: 60_000 });
    expect(await store.claim(lost)).toMatchObject({ granted: true });
    link = 'loses replies';
    await expect(store.renew(lost, { ttlMs: 60_000 })).rejects.toMatchObject({ applied: 'unknown' });
    link = 'down';
    // Longer than the time for which the hold was trusted, and its lease after that.
    await sleep(8_000);
    expect(await isThere('unseen')).toBe(true);
    link = 'up';
    expect(await store.renew(other, { ttlMs: 60_000 })).toMatchObject({ held: true });
    await eventually('the key is removed', async () => !(await isThere('unseen')));
    expect(await store.renew(other, { ttlMs: 60_000 })).toMatchObject({ held: true });
  });

  it('a claim whose reply was lost is granted when it asks again, though nothing was written', async () => {
    // This test has a cluster of its own, because every other write would raise the revision.
    const quiet = await startEtcdCluster({ members: 1 });
    const client = quiet.client();
    let isLost = false;
    const txn = async (request: object, options?: object): Promise<unknown> => {
      const reply = await client.kv.txn(request as never, options as never);
      if (isLost) return reply;
      isLost = true;
      throw new Error('14 UNAVAILABLE: the link broke');
    };
    const { leaseClient, watchClient } = client;
    const store = etcdStore({ kv: { txn }, leaseClient, watchClient });
    const wanted = request('quiet', { id: 'me#1', ttlMs: 10_000, wait: true });
    const claim = () => store.claim(wanted);
    await expect(claim()).rejects.toMatchObject({ applied: 'unknown' });
    expect(await claim()).toMatchObject({ granted: true });
    expect(await store.release(wanted)).toBe(true);
    await store.close();
    await quiet.stop();
  });
});
