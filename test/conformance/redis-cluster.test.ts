import { afterAll, beforeAll } from 'vitest';
import { redisStore } from '../../src/stores/redis/index.ts';
import { openClusterClient } from '../support/clients/cluster-clients.ts';
import { LIBRARIES } from '../support/clients/redis-clients.ts';
import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { redisTraits } from '../support/conformance/redis-subject.ts';
import { type RedisCluster, startRedisCluster } from '../support/servers/redis-cluster.ts';

let cluster: RedisCluster;
const closers: Array<() => void> = [];
beforeAll(async () => {
  cluster = await startRedisCluster();
});
afterAll(async () => {
  for (const close of closers) close();
  await cluster.stop();
});

for (const library of LIBRARIES) {
  describeConformance(`Redis Cluster under ${library}`, {
    traits: redisTraits,
    // A new client asks six nodes before its first claim, and the machine may be busy.
    ttlMs: 600,
    open: async (options) => {
      const { client, close } = await openClusterClient(library, cluster);
      closers.push(close);
      return redisStore(client, options);
    },
  });
}
