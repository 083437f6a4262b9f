import { it } from 'vitest';
import { etcdStore } from '../../../src/stores/etcd/index.ts';
import { expectSoundSoak } from '../../support/faults/soak.ts';
import { startEtcdCluster } from '../../support/servers/etcd.ts';

it('while members are paused and killed and links fail, no two hold at once and every fence rises', {
  timeout: 120_000,
}, async () => {
  await using cluster = await startEtcdCluster();
  await expectSoundSoak({
    members: cluster.members,
    leader: () => cluster.leader(),
    open: (addresses) =>
      etcdStore(cluster.client({ hosts: addresses.map((address) => `http://${address}`) })),
  });
});
