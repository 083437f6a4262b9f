import { afterAll, beforeAll } from 'vitest';
import { redisStore } from '../../src/stores/redis/index.ts';
import { openClusterClient } from '../support/cluster-clients.ts';
import { describeConformance } from '../support/conformance.ts';
import { LIBRARIES } from '../support/redis-clients.ts';
import { redisTraits } from '../support/redis-subject.ts';
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
    // A fresh client looks at six nodes before its first claim, and these machines are busy.
    ttlMs: 600,
    open: async (options) => {
      const { client, close } = await openClusterClient(library, cluster);
      closers.push(close);
      return redisStore(client, options);
    },
  });
}
