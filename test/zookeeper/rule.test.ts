import { beforeAll } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { describeRule } from '../support/conformance/grant-rule.ts';
import { cleanups } from '../support/hooks/cleanups.ts';
import { STEADY, startEnsemble } from '../support/servers/zookeeper.ts';

const atTheEnd = cleanups();
let stores: readonly [Store, Store];
beforeAll(async () => {
  // With three members, one store reads what the other has written from a member that may lag
  // behind.
  const ensemble = await startEnsemble(STEADY);
  atTheEnd(() => ensemble.stop());
  const open = (): Store => zookeeperStore(() => ensemble.client({ sessionMs: 5_000 }), { root: '/rule' });
  stores = [open(), open()];
  atTheEnd(async () => void (await Promise.all(stores.map((store) => store.close()))));
});

describeRule('ZooKeeper', () => stores);
