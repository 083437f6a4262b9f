import { redlockStore } from 'holdfast/redis';
import { Redis } from 'ioredis';
import { startRedisNodes } from '../../test/support/servers/redis-nodes.ts';
import type { Contender } from '../shared/contender.ts';
import { holdfastOver, RELEASE, redlockOver, TTL_MS, value } from './contenders.ts';
import { pairs } from './latency.ts';
import { report } from './measure.ts';
import { compare } from './throughput.ts';

const LATENCY_ROUNDS = 9;
const THROUGHPUT_ROUNDS = 5;
const TASKS = 100;

interface Scripted {
  floorRelease(key: string, value: string): Promise<number>;
}

function connect(urls: readonly string[]): Redis[] {
  return urls.map((url) => new Redis(url));
}

/** The floor: one command to each node, and a majority of them must succeed. */
function fanOut(urls: readonly string[]): Contender {
  const clients = connect(urls) as Array<Redis & Scripted>;
  for (const client of clients) client.defineCommand('floorRelease', { numberOfKeys: 1, lua: RELEASE });
  return {
    name: 'bare SET NX fan-out',
    async acquire(lock) {
      const own = value();
      const votes = await Promise.all(clients.map((client) => client.set(lock, own, 'PX', TTL_MS, 'NX')));
      if (votes.filter((vote) => vote === 'OK').length <= clients.length / 2) throw new Error('held');
      return () => Promise.all(clients.map((client) => client.floorRelease(lock, own)));
    },
    close: () => {
      for (const client of clients) client.disconnect();
    },
  };
}

function holdfast(urls: readonly string[]): Contender {
  const clients = connect(urls);
  return holdfastOver('holdfast, with fences', redlockStore(clients), clients);
}

const redlock5 = (urls: readonly string[]): Contender =>
  redlockOver('redlock 5, without fences', connect(urls));

/** The floor, Holdfast and another package, over these servers. */
export const redlockContenders = (urls: readonly string[]): Contender[] =>
  [fanOut, holdfast, redlock5].map((make) => make(urls));

/** Five independent servers. */
export async function redlock(): Promise<void> {
  const nodes = await startRedisNodes(5);
  try {
    const contenders = redlockContenders(nodes.urls);
    const [floor, own] = contenders as [Contender, Contender, Contender];
    for (const contender of contenders) await pairs(contender);
    const rounds = { latencyRounds: LATENCY_ROUNDS, throughputRounds: THROUGHPUT_ROUNDS, tasks: TASKS };
    const { usOf, rateOf } = await compare(contenders, rounds);
    report('Redlock over 5 nodes, p50 to the bare fan-out', usOf(own) / usOf(floor), { atMost: 2.2 });
    report(`Redlock, ${TASKS} tasks, to the bare fan-out`, rateOf(own) / rateOf(floor), { atLeast: 0.5 });
    for (const contender of contenders) await contender.close();
  } finally {
    await nodes.stop();
  }
}
