import { expect, it } from 'vitest';
import { zookeeperStore } from '../../../src/stores/zookeeper/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { soak } from '../../support/faults/soak.ts';
import { startEnsemble } from '../../support/servers/zookeeper.ts';

it('while members sleep and die and links fail, nobody holds beside another and every fence rises', {
  timeout: 120_000,
}, async () => {
  await using ensemble = await startEnsemble();
  const seed = Math.floor(Math.random() * 2 ** 31);
  const dice = virtualClock({ seed });
  const options = { forMs: 10_000, workers: 5, names: 2, ttlMs: 2_000, random: () => dice.random() };
  const subject = {
    members: ensemble.members,
    leader: () => ensemble.leader(),
    open: (addresses: readonly string[]) =>
      zookeeperStore(() => ensemble.client({ address: addresses.join(','), sessionMs: options.ttlMs })),
  };
  const result = await soak(subject, options);
  expect(result.breaches, `seed ${seed}`).toEqual([]);
  expect(result.holds, `seed ${seed}`).toBeGreaterThan(10);
});
