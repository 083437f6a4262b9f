import { Cluster } from 'ioredis';
import { Cluster as Cluster5 } from 'ioredis5';
import { createCluster } from 'redis';
import { createCluster as createCluster5 } from 'redis5';
import type { RedisClusterClient } from '../../../src/stores/redis/index.ts';
import type { RedisCluster } from '../servers/redis-cluster.ts';
import type { Library } from './redis-clients.ts';

/**
 * A connected Cluster client of that library and a way to close it. Errors are swallowed, as by a listener of
 * the user.
 */
export async function openClusterClient(
  library: Library,
  cluster: RedisCluster,
): Promise<{ client: RedisClusterClient; close(): void }> {
  if (library === 'ioredis' || library === 'ioredis 5') {
    const nodes = [...cluster.addresses];
    const client: Cluster =
      library === 'ioredis' ? new Cluster(nodes) : (new Cluster5(nodes) as unknown as Cluster);
    client.on('error', () => {});
    await client.get('warm');
    return { client, close: () => client.disconnect() };
  }
  const options = {
    rootNodes: cluster.addresses.map(({ host, port }) => ({ url: `redis://${host}:${port}` })),
  };
  const client = library === 'node-redis' ? createCluster(options) : createCluster5(options);
  client.on('error', () => {});
  await client.connect();
  return { client, close: () => void (client.isOpen && client.destroy()) };
}
