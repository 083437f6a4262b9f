import { InvalidArgumentError, UnsupportedError } from '../../errors.ts';
import { type IoredisClient, ioredisLink } from './ioredis-link.ts';
import type { Link } from './link.ts';
import { type NodeRedisClient, nodeRedisLink } from './node-redis-link.ts';

/** A client of ioredis or of node-redis (the package `redis`), version 5 or newer of either. */
export type RedisClient = IoredisClient | NodeRedisClient;

/** Throws `InvalidArgumentError` for what is neither, before any command is sent. */
export function linkOf(client: RedisClient): Link {
  if (client === null || typeof client !== 'object')
    throw new InvalidArgumentError('client', 'must be a Redis client');
  if ('isCluster' in client && client.isCluster === true) {
    throw new UnsupportedError('redisStore() takes a client of one Redis server, not of a Cluster');
  }
  if ('status' in client && typeof client.call === 'function') return ioredisLink(client);
  if ('isOpen' in client && typeof client.sendCommand === 'function') return nodeRedisLink(client);
  throw new InvalidArgumentError(
    'client',
    'must be a client of ioredis or of redis (node-redis), version 5 or newer',
  );
}
