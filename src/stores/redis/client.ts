import { InvalidArgumentError, UnsupportedError } from '../../errors.ts';
import { type IoredisCluster, IoredisNodes } from './cluster/ioredis-nodes.ts';
import { type NodeRedisCluster, NodeRedisNodes } from './cluster/node-redis-nodes.ts';
import type { ClusterNodes } from './cluster/nodes.ts';
import { type IoredisClient, ioredisLink } from './ioredis-link.ts';
import type { Link } from './link.ts';
import { type NodeRedisClient, nodeRedisLink } from './node-redis-link.ts';
import { type NodeRedisSentinel, NodeRedisSentinelLink } from './node-redis-sentinel-link.ts';

/** A client of ioredis or of node-redis (the package `redis`), version 5 or newer of either: of one server, or one that follows Sentinel. */
export type RedisClient = IoredisClient | NodeRedisClient | NodeRedisSentinel;

/** A client of a Redis Cluster: `Cluster` of ioredis, `createCluster` of node-redis, version 5 or newer of either. */
export type RedisClusterClient = IoredisCluster | NodeRedisCluster;

/** `null` for a client that is not of a Cluster. */
export function clusterNodesOf(client: RedisClient | RedisClusterClient): ClusterNodes | null {
  if (client === null || typeof client !== 'object') return null;
  if ('isCluster' in client && client.isCluster === true) return new IoredisNodes(client);
  return 'nodeByAddress' in client && typeof client.nodeClient === 'function'
    ? new NodeRedisNodes(client)
    : null;
}

/** Throws `InvalidArgumentError` for what is neither, before any command is sent. */
export function linkOf(client: RedisClient): Link {
  if (typeof client === 'string')
    throw new InvalidArgumentError('client', 'must be a Redis client; a URL is for openLocks');
  if (client === null || typeof client !== 'object')
    throw new InvalidArgumentError('client', 'must be a Redis client');
  if ('isCluster' in client && client.isCluster === true) {
    throw new UnsupportedError('A client of one Redis server is needed here, not one of a Cluster');
  }
  if ('status' in client && typeof client.call === 'function') return ioredisLink(client);
  if ('acquire' in client && typeof client.acquire === 'function') return new NodeRedisSentinelLink(client);
  if ('isOpen' in client && typeof client.sendCommand === 'function')
    return nodeRedisLink(client as NodeRedisClient);
  throw new InvalidArgumentError(
    'client',
    'must be a client of ioredis or of redis (node-redis), version 5 or newer',
  );
}
