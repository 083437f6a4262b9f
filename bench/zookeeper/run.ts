import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createLocks } from 'holdfast';
import { zookeeperStore } from 'holdfast/zookeeper';
import { findKazoo } from '../../test/support/servers/kazoo.ts';
import { startEnsemble } from '../../test/support/servers/zookeeper.ts';
import { manyAtOnce, median, oneAfterTheOther, report } from '../etcd/measure.ts';
import { connect, floor, holdfast } from './contenders.ts';
import { counted } from './counted.ts';

/** What the ZooKeeper store costs on a real ensemble of three members, as ratios within one run. Members wait for their disks, as they do by default. */

const ROUNDS = 21;
const PER_ROUND = 60;
/** Both sides are measured as a service that has run for a while pays: while code is being compiled, the compiler takes its time from the members on the same cores. */
const WARM_UP = 2_000;
const KAZOO = fileURLToPath(new URL('./kazoo-bench.py', import.meta.url));

async function uncontended(address: string): Promise<void> {
  const contenders = [floor(address), holdfast(address)] as const;
  const times: number[][] = contenders.map(() => []);
  for (const each of contenders) await oneAfterTheOther(each, WARM_UP, 'one');
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [n, each] of contenders.entries())
      times[n]?.push(await oneAfterTheOther(each, PER_ROUND, 'one'));
  }
  const [bare = [], ours = []] = times;
  const ratio = median(ours.map((time, n) => time / (bare[n] ?? Number.NaN)));
  const figure = `${median(ours).toFixed(2)} ms, ${ratio.toFixed(2)} × the floor`;
  report('uncontended acquire + release', figure, '≤ 1.2 ×', ratio <= 1.2);
  for (const each of contenders) await each.close();
  const { stdout } = spawnSync(findKazoo(), [KAZOO, address, '500'], { encoding: 'utf8' });
  const kazoo = Number(stdout);
  console.log(`      (kazoo's Lock: ${kazoo.toFixed(2)} ms, ${(kazoo / median(ours)).toFixed(2)} × ours)`);
}

async function throughput(address: string): Promise<void> {
  const [bare, ours] = [floor(address), holdfast(address)];
  for (const each of [bare, ours]) await manyAtOnce(each, 100, 1_000, 'many');
  const ratios: number[] = [];
  const rates: number[] = [];
  for (let round = 0; round < 9; round += 1) {
    const theirs = await manyAtOnce(bare, 100, 1_000, 'many');
    const own = await manyAtOnce(ours, 100, 1_000, 'many');
    rates.push(own);
    ratios.push(own / theirs);
  }
  const figure = `${median(rates).toFixed(0)}/s, ${median(ratios).toFixed(2)} × the floor`;
  report('100 tasks on 100 names: throughput', figure, '≥ 1.0 ×', median(ratios) >= 1);
  await bare.close();
  await ours.close();
}

/** Milliseconds from one release to the next hold, with so many in line, and what each of them cost. */
async function handOver(address: string, waiters: number) {
  const own = connect(address);
  const { client, count } = counted(own);
  const locks = createLocks(zookeeperStore(client), { waitMs: 120_000 });
  const name = `line-${waiters}-${Math.random()}`;
  const lock = locks.mutex(name);
  const blocker = await lock.acquire();
  const served: number[] = [];
  const line = Array.from({ length: waiters }, async (_, n) => {
    const hold = await lock.acquire();
    served.push(n);
    await hold.release();
  });
  while ((await locks.inspect(name)).waiters.length < waiters) await sleep(50);
  await sleep(500);
  const before = { ...count };
  const startedAt = performance.now();
  await blocker.release();
  await Promise.all(line);
  const eachMs = (performance.now() - startedAt) / waiters;
  const inOrder = served.every((n, at) => n === at);
  const events = (count.events - before.events) / waiters;
  await locks.close();
  own.close();
  return { eachMs, inOrder, events };
}

async function handOvers(address: string): Promise<void> {
  await handOver(address, 10);
  const ratios: number[] = [];
  let last = await handOver(address, 100);
  for (let round = 0; round < 5; round += 1) {
    const few = await handOver(address, 10);
    last = await handOver(address, 100);
    ratios.push(last.eachMs / few.eachMs);
  }
  console.log(
    `      (one hand-over with 100 waiters: ${last.eachMs.toFixed(2)} ms, ${median(ratios).toFixed(2)} × with 10 waiters)`,
  );
  report('100 waiters: watch events for each hand-over', last.events.toFixed(2), '1', last.events <= 1.05);
  report('… in order', String(last.inOrder), 'true', last.inOrder);
}

const ensemble = await startEnsemble({ isDurable: true });
try {
  // All on one member, a follower: it is one step further from the leader than the leader itself.
  await uncontended((await ensemble.follower()).address);
  await throughput(ensemble.address);
  await handOvers(ensemble.address);
} finally {
  await ensemble.stop();
}
process.exit();
