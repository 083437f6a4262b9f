import { afterAll, beforeAll } from 'vitest';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { type Ensemble, startEnsemble } from '../support/servers/zookeeper.ts';

let ensemble: Ensemble;
beforeAll(async () => {
  ensemble = await startEnsemble();
});
afterAll(() => ensemble?.stop());

const traits = { lifetime: 'session', ordered: true, counting: true, remembers: false } as const;

describeConformance('the ZooKeeper store', {
  traits,
  evictions: 'renewal',
  open: async (options) => zookeeperStore(() => ensemble.client(), { root: '/conformance', ...options }),
});
