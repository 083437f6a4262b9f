import { redisStore } from 'holdfast/redis';
import { Cluster } from 'ioredis';
import { startRedisCluster } from '../../test/support/servers/redis-cluster.ts';
import type { Contender } from '../shared/contender.ts';
import { holdfastOver, redlockOver, semaphoreOver, sesameOver } from './contenders.ts';
import { pairs } from './latency.ts';
import { report } from './measure.ts';
import { compare, throughput } from './throughput.ts';

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
    const rounds = { latencyRounds: ROUNDS, throughputRounds: ROUNDS, tasks: TASKS };
    const { rateOf } = await compare(contenders, rounds);
    const [own, ...others] = contenders as [Contender, ...Contender[]];
    report(`Cluster, ${TASKS} tasks, to the fastest peer`, rateOf(own) / Math.max(...others.map(rateOf)), {
      atLeast: 1.2,
    });
    for (const contender of contenders) await contender.close();
  } finally {
    await servers.stop();
  }
}
