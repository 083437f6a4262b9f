import { setTimeout as sleep } from 'node:timers/promises';
import type { Etcd3 } from 'etcd3';
import { beforeAll, describe, expect, it } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { type EtcdClient, etcdStore } from '../../../src/stores/etcd/index.ts';
import { cleanups } from '../../etcd/cleanup.ts';
import { type EtcdCluster, startEtcdCluster } from '../../support/servers/etcd.ts';

/** Requests that take effect after everybody has given up on them, as those that wait in a log without a majority can. */
const atTheEnd = cleanups();
let cluster: EtcdCluster;
let direct: Etcd3;
beforeAll(async () => {
  cluster = await startEtcdCluster({ members: 1 });
  atTheEnd(() => cluster.stop());
  direct = cluster.client();
});

/** A client whose transactions about this lock fail at once, and reach the cluster a second later all the same. */
function lateFor(client: Etcd3, isLate: (request: string) => boolean): EtcdClient {
  return {
    leaseClient: client.leaseClient,
    watchClient: client.watchClient,
    kv: {
      txn: async (request, options) => {
        const text = JSON.stringify(request, (_, value) =>
          value?.type === 'Buffer' ? Buffer.from(value.data).toString() : value,
        );
        if (!isLate(text)) return await client.kv.txn(request as never, options as never);
        void sleep(1_000)
          .then(() => client.kv.txn(request as never))
          .catch(() => {});
        throw new Error('14 UNAVAILABLE: the link broke');
      },
    },
  };
}

const isThere = async (name: string): Promise<boolean> =>
  (await direct.getAll().prefix(`holdfast/${name}/`).keys()).length > 0;

describe.concurrent('a request arrives late', () => {
  it('a claim that nobody wants any more goes with its lease, though others of its process go on', async () => {
    const isLate = (text: string): boolean => text.includes('/unwanted/') && text.includes('request_put');
    const store = etcdStore(lateFor(cluster.client(), isLate));
    const locks = createLocks(store, { ttlMs: 2_000 });
    atTheEnd(() => locks.close({ drainMs: 0 }));
    const other = await locks.mutex('goes-on').acquire();
    const request = {
      name: 'unwanted',
      id: 'me#1',
      mode: { kind: 'exclusive' },
      ttlMs: 2_000,
      wait: false,
      note: '',
      fenceAbove: 0n,
    } as const;
    await expect(store.claim(request)).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
    expect(await store.release(request)).toBe(false);
    await sleep(1_300);
    expect(await isThere('unwanted')).toBe(true);
    const appearedAt = performance.now();
    while (await isThere('unwanted')) {
      // Three seconds were granted for two, and etcd looks twice a second.
      expect(performance.now() - appearedAt).toBeLessThan(6_000);
      await sleep(50);
    }
    // Meanwhile the other has been renewed more than once, and moved off that lease.
    await sleep(1_500);
    other.assertHeld();
    expect(await other.release()).toBe(true);
  });

  it('a claim that is asked for again by its id is found, and is one claim', async () => {
    let spoiled = false;
    const isLate = (text: string): boolean => {
      if (spoiled || !text.includes('/again/') || !text.includes('request_put')) return false;
      spoiled = true;
      return true;
    };
    const locks = createLocks(etcdStore(lateFor(cluster.client(), isLate)), { ttlMs: 5_000 });
    atTheEnd(() => locks.close({ drainMs: 0 }));
    const hold = await locks.mutex('again').acquire();
    await sleep(1_300);
    expect(await direct.getAll().prefix('holdfast/again/').keys()).toHaveLength(1);
    expect(await hold.release()).toBe(true);
    expect(await isThere('again')).toBe(false);
  });

  it('row 12: a renewal that arrives after the release creates nothing', async () => {
    const isLate = (text: string): boolean => text.includes('/renewed/') && text.includes('ignore_value');
    const locks = createLocks(etcdStore(lateFor(cluster.client(), isLate)), { ttlMs: 2_000 });
    atTheEnd(() => locks.close({ drainMs: 0 }));
    const hold = await locks.mutex('renewed').acquire();
    await expect(hold.extend(4_000)).rejects.toMatchObject({ code: 'STORE' });
    expect(await hold.release()).toBe(true);
    await sleep(1_500);
    expect(await isThere('renewed')).toBe(false);
  });
});
