import { afterAll, beforeAll } from 'vitest';
import { etcdStore } from '../../src/stores/etcd/index.ts';
import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { type EtcdCluster, startEtcdCluster } from '../support/servers/etcd.ts';

let cluster: EtcdCluster;
beforeAll(async () => {
  cluster = await startEtcdCluster();
});
afterAll(() => cluster?.stop());

describeConformance('etcd', {
  traits: { lifetime: 'lease', ordered: true, counting: true, remembers: true },
  open: async (options) => etcdStore(cluster.client(), options),
  // etcd grants two seconds at least.
  ttlMs: 1_500,
  // Half a second after the last wait the stream of the watches is closed.
  wasTooSlow: (error) => String(error).includes('the eviction was not reported'),
});
