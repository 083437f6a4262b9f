import { it } from 'vitest';
import { zookeeperStore } from '../../../src/stores/zookeeper/index.ts';
import { expectSoundSoak, SOAK_TTL_MS } from '../../support/faults/soak.ts';
import { startEnsemble } from '../../support/servers/zookeeper.ts';

it('while members are paused and killed and links fail, no two hold at once and every fence rises', {
  timeout: 120_000,
}, async () => {
  await using ensemble = await startEnsemble();
  await expectSoundSoak({
    members: ensemble.members,
    leader: () => ensemble.leader(),
    open: (addresses) =>
      zookeeperStore(() => ensemble.client({ address: addresses.join(','), sessionMs: SOAK_TTL_MS })),
  });
});
