import { Redlock as SesameRedlock } from '@sesamecare-oss/redlock';
import { createLocks } from 'holdfast';
import { redisStore } from 'holdfast/redis';
import { Cluster } from 'ioredis';
import { Mutex } from 'redis-semaphore';
import Redlock from 'redlock';
import { type RedisCluster, startRedisCluster } from '../../test/support/servers/redis-cluster.ts';
import { type Contender, TTL_MS } from './contenders.ts';
import { throughput } from './many.ts';
import { alternate, middle, report } from './measure.ts';
import { pairs } from './one-at-a-time.ts';

const ROUNDS = 7;
const TASKS = 100;

const connect = ({ addresses }: RedisCluster): Cluster => new Cluster([...addresses]);

function holdfast(cluster: RedisCluster): Contender {
  const client = connect(cluster);
  const locks = createLocks(redisStore(client), { ttlMs: TTL_MS, waitMs: Number.POSITIVE_INFINITY });
  return {
    name: 'holdfast, with fences',
    async acquire(lock) {
      const hold = await locks.mutex(lock).acquire();
      return () => hold.release();
    },
    async close() {
      await locks.close();
      client.disconnect();
    },
  };
}

function redlock5(cluster: RedisCluster): Contender {
  const client = connect(cluster);
  const redlock = new Redlock([client], { retryCount: -1 });
  return {
    name: 'redlock 5',
    async acquire(lock) {
      const held = await redlock.acquire([lock], TTL_MS);
      return () => held.release();
    },
    close: () => client.disconnect(),
  };
}

function sesame(cluster: RedisCluster): Contender {
  const client = connect(cluster);
  const redlock = new SesameRedlock([client as never], { retryCount: -1 });
  return {
    name: '@sesamecare-oss/redlock',
    async acquire(lock) {
      const held = await redlock.acquire([lock], TTL_MS);
      return () => held.release();
    },
    close: () => client.disconnect(),
  };
}

function semaphore(cluster: RedisCluster): Contender {
  const client = connect(cluster);
  return {
    name: 'redis-semaphore',
    async acquire(lock) {
      const mutex = new Mutex(client as never, lock, { lockTimeout: TTL_MS, acquireTimeout: 600_000 });
      await mutex.acquire();
      return () => mutex.release();
    },
    close: () => client.disconnect(),
  };
}

/** Three masters with a replica each, and the packages that work with a Cluster client. */
export async function cluster(): Promise<void> {
  const servers = await startRedisCluster();
  try {
    const contenders = [holdfast, redlock5, sesame, semaphore].map((make) => make(servers));
    for (const contender of contenders) {
      await pairs(contender);
      await throughput(contender, TASKS);
    }
    const latency = await alternate(contenders, ROUNDS, pairs);
    const rates = await alternate(contenders, ROUNDS, (contender) => throughput(contender, TASKS));
    const usOf = (contender: Contender): number => middle(latency.get(contender) ?? []) * 1000;
    const rateOf = (contender: Contender): number => middle(rates.get(contender) ?? []);
    for (const contender of contenders) {
      const us = usOf(contender).toFixed(0).padStart(6);
      const rate = rateOf(contender).toFixed(0).padStart(8);
      console.log(`      ${contender.name.padEnd(28)} ${us} us ${rate} pairs/s with ${TASKS} tasks`);
    }
    const [own, ...others] = contenders as [Contender, ...Contender[]];
    report(`Cluster, ${TASKS} tasks, to the fastest peer`, rateOf(own) / Math.max(...others.map(rateOf)), {
      atLeast: 1.2,
    });
    for (const contender of contenders) await contender.close();
  } finally {
    await servers.stop();
  }
}
