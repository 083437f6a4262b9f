/** Never run: the client libraries that people bring have to fit what the stores ask for, with their own types. */
import Sqlite from 'better-sqlite3';
import { Etcd3 } from 'etcd3';
import { Cluster, Redis } from 'ioredis';
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5';
import zookeeper from 'node-zookeeper-client';
import { createClient, createCluster } from 'redis';
import { createClient as createClient5, createCluster as createCluster5 } from 'redis5';
import { type FenceGate, memoryFenceGate, sqliteFenceGate } from '../../src/fence/index.ts';
import type { Store } from '../../src/index.ts';
import { etcdStore } from '../../src/stores/etcd/index.ts';
import { redisStore, redlockStore } from '../../src/stores/redis/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';

export const stores = (): Store[] => [
  sqliteStore('locks.db'),
  sqliteStore(new Sqlite('locks.db')),
  redisStore(new Redis(), { prefix: '' }),
  redisStore(new Redis5()),
  redisStore(new Cluster([])),
  redisStore(createClient()),
  redisStore(createClient5()),
  redisStore(new Cluster5([])),
  redisStore(createCluster({ rootNodes: [] })),
  redisStore(createCluster5({ rootNodes: [] })),
  redlockStore([new Redis(), new Redis5(), createClient(), createClient5()], { drift: 0.02 }),
  etcdStore(new Etcd3({ hosts: [] }), { prefix: '' }),
  zookeeperStore(zookeeper.createClient('a'), { acl: [new zookeeper.ACL(31, new zookeeper.Id('auth', ''))] }),
  zookeeperStore(() => zookeeper.createClient('a')),
];

export const gates = (): FenceGate[] => [memoryFenceGate(), sqliteFenceGate(new Sqlite('data.db'))];

export const checked = async (gate: FenceGate): Promise<void> => gate.check('invoice/1', 12n);
