import { redisStore } from 'holdfast/redis';
import { Cluster } from 'ioredis';
import { createLocks } from '../../src/index.ts';
import { NodeConnection } from '../../src/stores/redis/cluster/ioredis-nodes.ts';
import { redisStore as storeOfSource } from '../../src/stores/redis/index.ts';
import { IoredisConnection } from '../../src/stores/redis/ioredis-connection.ts';
import { startRedisCluster } from '../../test/support/servers/redis-cluster.ts';
import { type Contender, holdfastOn } from '../shared/contender.ts';
import { holdfastOver, redlockOver, semaphoreOver, sesameOver } from './contenders.ts';
import { pairs } from './latency.ts';
import { alternate, middle, report } from './measure.ts';
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

/** The gain of sending the calls of one tick as one packet: the source with and without it, in turns. */
export async function packets(): Promise<void> {
  const servers = await startRedisCluster();
  const { send } = NodeConnection.prototype;
  try {
    const client = new Cluster([...servers.addresses]);
    const own = holdfastOn(createLocks(storeOfSource(client)), () => client.disconnect());
    const measure = (gathers: boolean): Promise<number[]> => {
      NodeConnection.prototype.send = gathers ? send : IoredisConnection.prototype.send;
      return throughput(own, TASKS);
    };
    for (const gathers of [true, false]) await measure(gathers);
    const results = await alternate([true, false], ROUNDS, measure);
    const [packed = 0, alone = 0] = [...results.values()].map(middle);
    console.log(`      ${alone.toFixed(0)} → ${packed.toFixed(0)} pairs/s with ${TASKS} tasks`);
    report(`Cluster, ${TASKS} tasks, packets to single writes`, packed / alone, { atLeast: 1.1 });
    await own.close();
  } finally {
    NodeConnection.prototype.send = send;
    await servers.stop();
  }
}
