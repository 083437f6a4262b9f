import { inspect } from 'node:util';
import { Etcd3 } from 'etcd3';
import { Redis } from 'ioredis';
import { createClient } from 'node-zookeeper-client';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { createLocks, memoryStore } from '../../src/index.ts';
import { etcdStore } from '../../src/stores/etcd/index.ts';
import { postgresAdvisoryStore, postgresLeaseStore } from '../../src/stores/postgres/index.ts';
import { redisStore, redlockStore } from '../../src/stores/redis/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';

const URL_WITH_PASSWORD = 'redis://user:hunter2@127.0.0.1:1/0';

/** Whatever makes a store or takes one. */
const MAKERS: Record<string, (client: never, options?: never) => unknown> = {
  createLocks,
  redisStore,
  redlockStore,
  postgresLeaseStore,
  postgresAdvisoryStore,
  etcdStore,
  zookeeperStore,
};

describe('a value that is not a client or a store', () => {
  it.each(Object.keys(MAKERS))('is refused by %s at once, and not repeated in the error', (maker) => {
    for (const bad of [undefined, null, 7, {}, [], URL_WITH_PASSWORD, [URL_WITH_PASSWORD]]) {
      let thrown: unknown = 'nothing';
      try {
        MAKERS[maker]?.(bad as never);
      } catch (error) {
        thrown = error;
      }
      expect(thrown, `${maker}(${inspect(bad)})`).toMatchObject({ code: 'INVALID_ARGUMENT' });
      expect(inspect(thrown)).not.toContain('hunter2');
    }
  });
});

/** None of them is connected to anything. */
const STORES: Record<string, (options: { queueMax: number }) => unknown> = {
  memory: memoryStore,
  sqlite: (options) => sqliteStore(':memory:', options),
  redis: (options) => redisStore(new Redis({ lazyConnect: true }), options),
  postgres: (options) => postgresLeaseStore(new pg.Pool(), options),
  etcd: (options) => etcdStore(new Etcd3({ hosts: '127.0.0.1:1' }), options),
  zookeeper: (options) => zookeeperStore(createClient('127.0.0.1:1'), options),
};

describe('a queue without a bound', () => {
  it.each(Object.keys(STORES))('is refused by %s', (name) => {
    for (const queueMax of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, '10'] as number[])
      expect(() => STORES[name]?.({ queueMax }), String(queueMax)).toThrow(
        /^queueMax must be a whole number/,
      );
  });
});
