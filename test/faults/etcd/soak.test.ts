import { expect, it } from 'vitest';
import { etcdStore } from '../../../src/stores/etcd/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { soak } from '../../support/faults/soak.ts';
import { startEtcdCluster } from '../../support/servers/etcd.ts';

it('while members sleep and die and links fail, nobody holds beside another and every fence rises', {
  timeout: 120_000,
}, async () => {
  await using cluster = await startEtcdCluster();
  const seed = Math.floor(Math.random() * 2 ** 31);
  const dice = virtualClock({ seed });
  const options = { forMs: 10_000, workers: 5, names: 2, ttlMs: 2_000, random: () => dice.random() };
  const subject = {
    members: cluster.members,
    leader: () => cluster.leader(),
    open: (addresses: readonly string[]) =>
      etcdStore(cluster.client({ hosts: addresses.map((address) => `http://${address}`) })),
  };
  const result = await soak(subject, options);
  expect(result.breaches, `seed ${seed}`).toEqual([]);
  expect(result.holds, `seed ${seed}`).toBeGreaterThan(10);
});
