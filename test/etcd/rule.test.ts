import { beforeAll } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { etcdStore } from '../../src/stores/etcd/index.ts';
import { describeRule } from '../support/conformance/grant-rule.ts';
import { cleanups } from '../support/hooks/cleanups.ts';
import { startEtcdCluster } from '../support/servers/etcd.ts';

const atTheEnd = cleanups();
let stores: readonly [Store, Store];
beforeAll(async () => {
  const cluster = await startEtcdCluster({ members: 1 });
  atTheEnd(() => cluster.stop());
  stores = [etcdStore(cluster.client()), etcdStore(cluster.client())];
  atTheEnd(async () => void (await Promise.all(stores.map((store) => store.close()))));
});

describeRule('etcd', () => stores);
