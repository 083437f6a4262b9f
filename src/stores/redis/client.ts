import { InvalidArgumentError, UnsupportedError } from '../../errors.ts';
import { type IoredisCluster, IoredisNodes } from './cluster/ioredis-nodes.ts';
import { type NodeRedisCluster, NodeRedisNodes } from './cluster/node-redis-nodes.ts';
import type { ClusterNodes } from './cluster/nodes.ts';
import type { RedisConnection } from './connection.ts';
import type { IoredisClient } from './ioredis-client.ts';
import { IoredisConnection } from './ioredis-connection.ts';
import { type NodeRedisClient, NodeRedisConnection } from './node-redis-connection.ts';
import { type NodeRedisSentinel, NodeRedisSentinelConnection } from './node-redis-sentinel-connection.ts';
import { sharedOver } from './observed-client.ts';

/**
 * A client of ioredis or of node-redis (the package `redis`), version 5 or newer of either: of one
 * server, or one that follows Sentinel.
 */
export type RedisClient = IoredisClient | NodeRedisClient | NodeRedisSentinel;

/**
 * A client of a Redis Cluster: `Cluster` of ioredis, `createCluster` of node-redis, version 5 or
 * newer of either.
 */
export type RedisClusterClient = IoredisCluster | NodeRedisCluster;

/** `null` for a client that is not one of a Cluster. */
export function clusterNodesOf(client: RedisClient | RedisClusterClient): ClusterNodes | null {
  if (client === null || typeof client !== 'object') return null;
  refuseOld(client);
  if ('isCluster' in client && client.isCluster === true)
    return sharedOver(client, () => new IoredisNodes(client));
  return 'nodeByAddress' in client && typeof client.nodeClient === 'function'
    ? sharedOver(client, () => new NodeRedisNodes(client))
    : null;
}

/**
 * Throws `InvalidArgumentError` for any other value, before any command is sent. `isOwn`: we have
 * opened the client.
 */
export function connectionOf(client: RedisClient, isOwn = false): RedisConnection {
  if (typeof client === 'string')
    throw new InvalidArgumentError('client', 'must be a Redis client; a URL is for openLocks');
  if (client === null || typeof client !== 'object')
    throw new InvalidArgumentError('client', 'must be a Redis client');
  refuseOld(client);
  if ('isCluster' in client && client.isCluster === true) {
    throw new UnsupportedError('A client of one Redis server is needed here, not one of a Cluster');
  }
  if ('status' in client && typeof client.call === 'function')
    return sharedOver(client, () => new IoredisConnection(client, isOwn));
  if ('acquire' in client && typeof client.acquire === 'function')
    return sharedOver(client, () => new NodeRedisSentinelConnection(client));
  if ('isOpen' in client && typeof client.sendCommand === 'function')
    return sharedOver(client, () => new NodeRedisConnection(client as NodeRedisClient));
  throw new InvalidArgumentError(
    'client',
    'must be a client of ioredis or of redis (node-redis), version 5 or newer',
  );
}

/** Clients do not tell their version. Old ones are known by properties that version 5 removed or added. */
function refuseOld(client: object): void {
  const { options } = client as { readonly options?: object | null };
  const isIoredis4 =
    'status' in client && typeof options === 'object' && 'dropBufferSupport' in (options ?? {});
  const isNodeRedis4 = 'isOpen' in client && 'sendCommand' in client && !('withCommandOptions' in client);
  if (!isIoredis4 && !isNodeRedis4) return;
  const name = isIoredis4 ? 'ioredis' : 'redis';
  throw new UnsupportedError(
    `This client is of ${name} 4, and ${name} 5 or newer is needed: npm install ${name}@latest`,
  );
}
