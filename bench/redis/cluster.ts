import { redisStore } from 'holdfast/redis';
import { Cluster } from 'ioredis';
import { startRedisCluster } from '../../test/support/servers/redis-cluster.ts';
import { type Contender, holdfastOver, redlockOver, semaphoreOver, sesameOver } from './contenders.ts';
import { throughput } from './many.ts';
import { alternate, middle, report } from './measure.ts';
import { pairs } from './one-at-a-time.ts';

const ROUNDS = 7;
const TASKS = 100;

const makers: ReadonlyArray<(client: Cluster) => Contender> = [
  (client) => holdfastOver('holdfast, with fences', redisStore(client), [client]),
  (client) => redlockOver('redlock 5', [client]),
  sesameOver,
  semaphoreOver,
];

/** Three masters with a replica each, and the packages that work with a Cluster client. */
export async function cluster(): Promise<void> {
  const servers = await startRedisCluster();
  try {
    const contenders = makers.map((make) => make(new Cluster([...servers.addresses])));
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
