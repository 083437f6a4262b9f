import { type ClientLibrary, exportsWith, importInstalled } from '../shared/client-library.ts';
import type { IoredisCluster } from './cluster/ioredis-nodes.ts';
import type { NodeRedisCluster, NodeRedisShardNode } from './cluster/node-redis-nodes.ts';
import type { IoredisClient } from './ioredis-client.ts';
import type { NodeRedisClient } from './node-redis-connection.ts';

export interface Ioredis {
  readonly Redis: new (url: string | object, options?: object) => IoredisClient;
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisCluster;
}

export interface NodeRedis {
  createClient(options: object): NodeRedisClient;
  createCluster(options: object): OwnNodeRedisCluster;
}

interface OwnNodeRedisCluster extends NodeRedisCluster {
  readonly nodeByAddress: ReadonlyMap<string, NodeRedisShardNode & { client?: { unref?(): unknown } }>;
  connect(): Promise<unknown>;
}

// esbuild and webpack take an installed client into the bundle, and pass over a missing one because
// its require() stands in a `try`. Rollup leaves require() as it is, and must not see an import:
// both clients load JSON, which it cannot read without a plugin. Where there is no require(), in
// Rollup's and esbuild's ES modules, the client comes from `node_modules`.

export const IOREDIS: ClientLibrary<Ioredis> = {
  name: 'ioredis',
  async load() {
    try {
      return exportsWith<Ioredis>('Redis', require('ioredis'));
    } catch {
      return exportsWith<Ioredis>('Redis', await importInstalled('ioredis'));
    }
  },
};

export const NODE_REDIS: ClientLibrary<NodeRedis> = {
  name: 'redis',
  async load() {
    try {
      return exportsWith<NodeRedis>('createClient', require('redis'));
    } catch {
      return exportsWith<NodeRedis>('createClient', await importInstalled('redis'));
    }
  },
};
