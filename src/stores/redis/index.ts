/**
 * Locks in Redis 6.2 or newer: `redisStore(client)` with a client of ioredis or of node-redis, and
 * `redlockStore(clients)` over several independent servers.
 * @packageDocumentation
 */
import { checkKeys } from '../../checks.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { queueMaxOf } from '../shared/queue-max.ts';
import { clusterNodesOf, connectionOf, type RedisClient, type RedisClusterClient } from './client.ts';
import { ClusterStore } from './cluster/cluster-store.ts';
import { checkPrefix } from './keys.ts';
import { RedisStore, type RedisStoreOptions } from './redis-store.ts';
import { ReplicatedStore } from './replicated-store.ts';

export { type RedlockStoreOptions, redlockStore } from '../redlock/open.ts';
export type { RedisClient, RedisClusterClient } from './client.ts';
export type { IoredisCluster, IoredisNode } from './cluster/ioredis-nodes.ts';
export type { NodeRedisCluster, NodeRedisShardNode } from './cluster/node-redis-nodes.ts';
export type { IoredisClient } from './ioredis-client.ts';
export type { NodeRedisClient } from './node-redis-connection.ts';
export type { NodeRedisSentinel } from './node-redis-sentinel-connection.ts';
export type { ClientEvents } from './observed-client.ts';
export type { RedisStoreOptions } from './redis-store.ts';

/**
 * A store in one Redis server or in a Redis Cluster. The client stays yours: the store neither
 * configures nor closes it. The first waiter opens one more connection, a duplicate of the client,
 * which `close` ends.
 *
 * Throws `InvalidArgumentError` for a client or an option that cannot be used. The server is
 * checked before the first command: that command rejects with an `UnsupportedError` if the server
 * is older than 6.2, or if it may evict held locks (see `allowEviction`).
 */
export function redisStore(client: RedisClient | RedisClusterClient, options: RedisStoreOptions = {}): Store {
  checkKeys(options, ['prefix', 'queueMax', 'allowEviction', 'waitReplicas', 'clock']);
  const { prefix, waitReplicas = 0 } = options;
  checkPrefix(prefix);
  queueMaxOf(options);
  if (!Number.isInteger(waitReplicas) || waitReplicas < 0) {
    throw new InvalidArgumentError('waitReplicas', 'must be a whole number from 0');
  }
  const nodes = clusterNodesOf(client);
  const store =
    nodes === null
      ? new RedisStore(connectionOf(client as RedisClient), options, false)
      : new ClusterStore(nodes, options, false);
  return waitReplicas === 0 ? store : new ReplicatedStore(store, waitReplicas);
}
