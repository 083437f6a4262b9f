import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Etcd3 } from 'etcd3';
import { createLocks } from 'holdfast';
import { etcdStore } from 'holdfast/etcd';
import { startEtcdCluster } from '../../test/support/servers/etcd.ts';
import { etcd3Lock, floor, holdfast } from './contenders.ts';
import { counted } from './counted.ts';
import { compareHandoffs, compareThroughput, median, oneAfterTheOther, report } from './measure.ts';

/** What the etcd store costs on a real cluster of three members, as ratios within one run. */

const ROUNDS = 25;
const PER_ROUND = 60;

async function uncontended(hosts: readonly string[]): Promise<void> {
  const contenders = [await floor(hosts), await holdfast(hosts), await etcd3Lock(hosts)] as const;
  const times: number[][] = contenders.map(() => []);
  for (const each of contenders) await oneAfterTheOther(each, PER_ROUND, 'warm');
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [n, each] of contenders.entries())
      times[n]?.push(await oneAfterTheOther(each, PER_ROUND, `one-${n}`));
  }
  const [bare = [], ours = [], theirs = []] = times;
  const overFloor = median(ours.map((time, n) => time / (bare[n] ?? Number.NaN)));
  const overLock = median(ours.map((time, n) => (theirs[n] ?? Number.NaN) / time));
  const ms = median(ours).toFixed(2);
  report(
    'uncontended acquire + release',
    `${ms} ms, ${overFloor.toFixed(2)} × the floor`,
    '≤ 1.2 ×',
    overFloor <= 1.2,
  );
  report('… against the Lock of etcd3', `${overLock.toFixed(2)} × faster`, '≥ 1.3 ×', overLock >= 1.3);
  const hostsText = hosts.join(',').replaceAll('http://', '');
  const startedAt = performance.now();
  spawnSync('etcdctl', [`--endpoints=${hostsText}`, 'lock', 'ctl', 'true'], {
    env: { ...process.env, ETCDCTL_API: '3' },
  });
  console.log(
    `      (etcdctl lock NAME true, with its process: ${(performance.now() - startedAt).toFixed(0)} ms)`,
  );
  for (const each of contenders) await each.close();
}

/**
 * Milliseconds from a release to the next hold with this many waiters, and the cost of each
 * handoff.
 */
async function handoff(hosts: readonly string[], waiters: number) {
  const { client, count } = counted(new Etcd3({ hosts: [...hosts] }));
  const locks = createLocks(etcdStore(client), { waitMs: 120_000 });
  const name = `queue-${waiters}-${Math.random()}`;
  const lock = locks.mutex(name);
  const blocker = await lock.acquire();
  const served: bigint[] = [];
  const queue: Promise<void>[] = [];
  for (let n = 0; n < waiters; n += 1) {
    queue.push(
      lock.acquire().then(async (hold) => {
        served.push(hold.fence);
        await hold.release();
      }),
    );
  }
  while ((await locks.inspect(name)).waiters.length < waiters) await sleep(50);
  await sleep(500);
  const [eventsBefore, txnsBefore] = [count.events, count.txns];
  const startedAt = performance.now();
  await blocker.release();
  await Promise.all(queue);
  const eachMs = (performance.now() - startedAt) / waiters;
  // The fence is the queue position.
  const inOrder = served.every((fence, at) => at === 0 || fence > (served[at - 1] ?? 0n));
  const [events, txns] = [count.events - eventsBefore, count.txns - txnsBefore];
  await locks.close();
  return { eachMs, inOrder, events: events / waiters, txns: txns / waiters };
}

async function handoffs(hosts: readonly string[]): Promise<void> {
  const { last, ratio } = await compareHandoffs((waiters) => handoff(hosts, waiters));
  const figure = `${last.eachMs.toFixed(2)} ms, ${ratio.toFixed(2)} × with 10 waiters`;
  report('one handoff with 100 waiters', figure, '≤ 1.5 ×', ratio <= 1.5);
  report('… watch events for each', last.events.toFixed(2), '1', last.events <= 1.05);
  report('… transactions for each', last.txns.toFixed(2), '2 (take, release)', last.txns <= 2.2);
  report('… in order', String(last.inOrder), 'true', last.inOrder);
}

async function manyHolds(hosts: readonly string[]): Promise<void> {
  const { client, count } = counted(new Etcd3({ hosts: [...hosts] }));
  const locks = createLocks(etcdStore(client), { ttlMs: 6_000, waitMs: 30_000 });
  const names = Array.from({ length: 1_000 }, (_, n) => `many-${n}`);
  const holds = await Promise.all(names.map((name) => locks.mutex(name).acquire()));
  const before = { ...count };
  const seconds = 12;
  await sleep(seconds * 1_000);
  const held = holds.filter((hold) => hold.remainingMs > 0).length;
  const streams = count.mostKeepAlives;
  report(
    '1,000 holds: keep-alive streams at once',
    `${streams}, and ${held} still held`,
    '≤ 2',
    streams <= 2 && held === 1_000,
  );
  const [keepAlives, txns] = [count.keepAlives - before.keepAlives, count.txns - before.txns];
  console.log(`      (in ${seconds} s, TTL 6 s: ${keepAlives} keep-alives and ${txns} transactions in all)`);
  await locks.close({ drainMs: 0 });
}

const cluster = await startEtcdCluster();
const hosts = cluster.addresses.map((address) => `http://${address}`);
try {
  await uncontended(hosts);
  await compareThroughput(await floor(hosts), await holdfast(hosts), 7);
  await handoffs(hosts);
  await manyHolds(hosts);
} finally {
  await cluster.stop();
}
process.exit();
