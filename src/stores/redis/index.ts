/**
 * Locks in Redis 6.2 or newer: `redisStore(client)` with a client of ioredis or of node-redis, and `redlockStore(clients)` over several independent servers.
 * @packageDocumentation
 */
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { lineMaxOf } from '../line-max.ts';
import { clusterNodesOf, linkOf, type RedisClient, type RedisClusterClient } from './client.ts';
import { ClusterStore } from './cluster/cluster-store.ts';
import { checkPrefix } from './prefix.ts';
import { RedisStore, type RedisStoreOptions } from './redis-store.ts';
import { ReplicatedStore } from './replicated-store.ts';

export { type RedlockStoreOptions, redlockStore } from '../quorum/redlock.ts';
export type { RedisClient, RedisClusterClient } from './client.ts';
export type { IoredisCluster, IoredisNode } from './cluster/ioredis-nodes.ts';
export type { NodeRedisCluster, NodeRedisShardNode } from './cluster/node-redis-nodes.ts';
export type { IoredisClient } from './ioredis-link.ts';
export type { NodeRedisClient } from './node-redis-link.ts';
export type { NodeRedisSentinel } from './node-redis-sentinel-link.ts';
export type { RedisStoreOptions } from './redis-store.ts';

/**
 * A store in one Redis server or in a Redis Cluster, through a client that stays yours: it is neither configured nor closed by the store. The first waiter makes one more
 * connection, a duplicate of the client, which `close` ends.
 *
 * Throws `InvalidArgumentError` for a client or an option that cannot be used. The server is looked at before the first command: one older than 6.2,
 * or one that may evict held locks (see `allowEviction`), makes that command reject with an `UnsupportedError`.
 */
export function redisStore(client: RedisClient | RedisClusterClient, options: RedisStoreOptions = {}): Store {
  const { prefix, waitReplicas = 0 } = options;
  checkPrefix(prefix);
  lineMaxOf(options);
  if (!Number.isInteger(waitReplicas) || waitReplicas < 0) {
    throw new InvalidArgumentError('waitReplicas', 'must be a whole number from 0');
  }
  const nodes = clusterNodesOf(client);
  const store =
    nodes === null
      ? new RedisStore(linkOf(client as RedisClient), options, false)
      : new ClusterStore(nodes, options, false);
  return waitReplicas === 0 ? store : new ReplicatedStore(store, waitReplicas);
}
