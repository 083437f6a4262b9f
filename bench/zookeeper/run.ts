import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createLocks } from 'holdfast';
import { zookeeperStore } from 'holdfast/zookeeper';
import { findKazoo } from '../../test/support/servers/kazoo.ts';
import { startEnsemble } from '../../test/support/servers/zookeeper.ts';
import { compareHandoffs, compareThroughput, median, oneAfterTheOther, report } from '../etcd/measure.ts';
import { connect, floor, holdfast } from './contenders.ts';
import { counted } from './counted.ts';
import { shortcuts } from './shortcuts.ts';

/**
 * What the ZooKeeper store costs on a real ensemble of three members, as ratios within one run.
 * Members wait for their disks, as they do by default. `npm run bench -- zookeeper shortcuts`
 * measures only what each shortcut is worth.
 */

const ROUNDS = 21;
const PER_ROUND = 60;
/**
 * Both sides are measured after a warm-up, as in a service that has run for a while: the compiler
 * takes time from the members on the same cores.
 */
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

/**
 * Milliseconds from a release to the next hold with this many waiters, and the cost of each
 * handoff.
 */
async function handoff(address: string, waiters: number) {
  const own = connect(address);
  const { client, count } = counted(own);
  const locks = createLocks(zookeeperStore(client), { waitMs: 120_000 });
  const name = `queue-${waiters}-${Math.random()}`;
  const lock = locks.mutex(name);
  const blocker = await lock.acquire();
  const served: number[] = [];
  const queue = Array.from({ length: waiters }, async (_, n) => {
    const hold = await lock.acquire();
    served.push(n);
    await hold.release();
  });
  while ((await locks.inspect(name)).waiters.length < waiters) await sleep(50);
  await sleep(500);
  const before = { ...count };
  const startedAt = performance.now();
  await blocker.release();
  await Promise.all(queue);
  const eachMs = (performance.now() - startedAt) / waiters;
  const inOrder = served.every((n, at) => n === at);
  const events = (count.events - before.events) / waiters;
  await locks.close();
  own.close();
  return { eachMs, inOrder, events };
}

async function handoffs(address: string): Promise<void> {
  const { last, ratio } = await compareHandoffs((waiters) => handoff(address, waiters));
  const figure = `${last.eachMs.toFixed(2)} ms, ${ratio.toFixed(2)} × with 10 waiters`;
  console.log(`      (one handoff with 100 waiters: ${figure})`);
  report('100 waiters: watch events for each handoff', last.events.toFixed(2), '1', last.events <= 1.05);
  report('… in order', String(last.inOrder), 'true', last.inOrder);
}

const ensemble = await startEnsemble({ isDurable: true });
try {
  if (!process.argv.includes('shortcuts')) {
    // All requests go to a follower, which is one step further from the leader.
    await uncontended((await ensemble.follower()).address);
    await compareThroughput(floor(ensemble.address), holdfast(ensemble.address), 9);
    await handoffs(ensemble.address);
  }
  await shortcuts(ensemble);
} finally {
  await ensemble.stop();
}
process.exit();
