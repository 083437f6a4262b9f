import { setTimeout as sleep } from 'node:timers/promises';
import type { Etcd3 } from 'etcd3';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { type EtcdClient, etcdStore } from '../../../src/stores/etcd/index.ts';
import { cleanups } from '../../etcd/cleanup.ts';
import { renewed } from '../../support/renewed.ts';
import { type EtcdCluster, startEtcdCluster } from '../../support/servers/etcd.ts';

/** Requests that take effect after everybody has given up on them, as those that wait in a log without a majority can. */
// Most of it is waiting.
vi.setConfig({ maxConcurrency: 4 });
const atTheEnd = cleanups();
let cluster: EtcdCluster;
let direct: Etcd3;
beforeAll(async () => {
  cluster = await startEtcdCluster({ members: 1 });
  atTheEnd(() => cluster.stop());
  direct = cluster.client();
});

/** A client whose transactions about this lock fail at once, and reach the cluster a little later all the same. */
function lateFor(
  client: Etcd3,
  isLate: (request: string) => boolean,
): { late: EtcdClient; arrived(): Promise<unknown> } {
  const sent: Promise<unknown>[] = [];
  const txn = async (request: object, options?: object): Promise<unknown> => {
    const text = JSON.stringify(request, (_, value) =>
      value?.type === 'Buffer' ? Buffer.from(value.data).toString() : value,
    );
    if (!isLate(text)) return await client.kv.txn(request as never, options as never);
    sent.push(
      sleep(500)
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
  it('a claim that nobody wants any more goes with its lease, though others of its process go on', async () => {
    const isLate = (text: string): boolean => text.includes('/unwanted/') && text.includes('request_put');
    const { late, arrived } = lateFor(cluster.client(), isLate);
    const store = etcdStore(late);
    const locks = createLocks(store, { ttlMs: 3_000 });
    atTheEnd(() => locks.close({ drainMs: 0 }));
    const other = await locks.mutex('goes-on').acquire();
    const request = {
      name: 'unwanted',
      id: 'me#1',
      mode: { kind: 'exclusive' },
      ttlMs: 3_000,
      wait: false,
      note: '',
      fenceAbove: 0n,
    } as const;
    await expect(store.claim(request)).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
    expect(await store.release(request)).toBe(false);
    await arrived();
    expect(await isThere('unwanted')).toBe(true);
    const appearedAt = performance.now();
    while (await isThere('unwanted')) {
      // Four seconds were granted for three, and etcd looks twice a second.
      expect(performance.now() - appearedAt).toBeLessThan(15_000);
      await sleep(50);
    }
    // The other has been renewed meanwhile, and moved off that lease: it goes on.
    await renewed(other);
    expect(await other.release()).toBe(true);
  });

  it('a claim that is asked for again by its id is found, and is one claim', async () => {
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
});
