/** Never run: the types of the client libraries must match what the stores accept. */
import Sqlite from 'better-sqlite3';
import { Etcd3 } from 'etcd3';
import { Cluster, Redis } from 'ioredis';
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5';
import mysql from 'mysql2';
import mysqlPromise from 'mysql2/promise';
import zookeeper from 'node-zookeeper-client';
import pg from 'pg';
import postgres from 'postgres';
import { createClient, createCluster, createSentinel } from 'redis';
import {
  createClient as createClient5,
  createCluster as createCluster5,
  createSentinel as createSentinel5,
} from 'redis5';
import {
  type FenceGate,
  memoryFenceGate,
  mysqlFenceGate,
  postgresFenceGate,
  sqliteFenceGate,
} from '../../src/fence/index.ts';
import type { Store } from '../../src/index.ts';
import { etcdStore } from '../../src/stores/etcd/index.ts';
import { mysqlStore } from '../../src/stores/mysql/index.ts';
import {
  lockInTransaction,
  postgresAdvisoryStore,
  postgresLeaseStore,
} from '../../src/stores/postgres/index.ts';
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
  redisStore(createSentinel({ name: 'main', sentinelRootNodes: [] })),
  redisStore(createSentinel5({ name: 'main', sentinelRootNodes: [] })),
  redlockStore([new Redis(), new Redis5(), createClient(), createClient5()], { drift: 0.02 }),
  etcdStore(new Etcd3({ hosts: [] }), { prefix: '' }),
  zookeeperStore(zookeeper.createClient('a'), { acl: [new zookeeper.ACL(31, new zookeeper.Id('auth', ''))] }),
  zookeeperStore(() => zookeeper.createClient('a')),
  mysqlStore(mysql.createPool({}), { prefix: 'locks_' }),
  mysqlStore(mysqlPromise.createPool({})),
  postgresLeaseStore(new pg.Pool(), { schema: 'locks' }),
  postgresLeaseStore(new pg.Client()),
  postgresLeaseStore(postgres()),
  postgresAdvisoryStore(new pg.Pool(), { key: (name) => BigInt(name) }),
  postgresAdvisoryStore(new pg.Client(), { key: () => ({ classId: 1, objectId: 2 }) }),
  postgresAdvisoryStore(postgres()),
];

export const gates = (): FenceGate[] => [
  memoryFenceGate(),
  sqliteFenceGate(new Sqlite('data.db')),
  postgresFenceGate(new pg.Client()),
  mysqlFenceGate(mysql.createConnection({})),
];

export const transactions = async (pool: pg.Pool, sql: postgres.Sql): Promise<void> => {
  await lockInTransaction(await pool.connect(), ['a', 5n, { classId: 1, objectId: 2 }], { mode: 'shared' });
  await sql.begin(async (tx) => {
    await lockInTransaction(tx, 'a');
    await postgresFenceGate(tx).check('a', 1n);
  });
};

export const mysqlTransaction = async (pool: mysqlPromise.Pool): Promise<void> =>
  mysqlFenceGate(await pool.getConnection()).check('a', 1n);

export const checked = async (gate: FenceGate): Promise<void> => gate.check('invoice/1', 12n);
