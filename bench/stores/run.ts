import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Locks, openLocks } from 'holdfast';
import { startRedis } from '../../src/torture/servers/redis.ts';
import { startEtcdCluster } from '../../test/support/servers/etcd.ts';
import { startMysql } from '../../test/support/servers/mysql.ts';
import { startPostgres } from '../../test/support/servers/postgres.ts';
import { startRedisNodes } from '../../test/support/servers/redis-nodes.ts';
import { startEnsemble } from '../../test/support/servers/zookeeper.ts';
import { median } from '../etcd/measure.ts';

/**
 * Compares all stores, on local servers with default settings, to help choose one. It has no
 * targets; each store has its own bench.
 */

const ROUNDS = 7;
const PAIRS = 60;
const TASKS = 100;
const FOR_MS = 400;

interface Subject {
  readonly name: string;
  readonly locks: Locks;
  readonly pairMs: number[];
  readonly perSecond: number[];
}

// Each server ends with this process.
process.setMaxListeners(32);
const dir = mkdtempSync(join(tmpdir(), 'holdfast-stores-'));
const [redis, nodes, postgres, mysql, etcd, ensemble] = [
  await startRedis(),
  await startRedisNodes(),
  await startPostgres(),
  await startMysql(),
  await startEtcdCluster(),
  await startEnsemble({ isDurable: true }),
];

const nodeHosts = nodes.servers.map((server) => `127.0.0.1:${server.port}`).join(',');
const URLS: readonly (readonly [string, string])[] = [
  ['memory', 'memory:'],
  ['SQLite', `sqlite:${join(dir, 'locks.db')}`],
  ['Redis', redis.url],
  [`Redlock, ${nodes.servers.length} nodes`, `redlock://${nodeHosts}`],
  ['PostgreSQL leases', `${postgres.url}?mode=lease`],
  ['PostgreSQL advisory', `${postgres.url}?mode=advisory`],
  ['MySQL (MariaDB)', await mysql.createDatabase()],
  ['etcd, 3 members', `etcd://${etcd.addresses.join(',')}`],
  ['ZooKeeper, 3 members', `zookeeper://${ensemble.address}?sessionMs=5000`],
];

const subjects: Subject[] = [];
for (const [name, url] of URLS)
  subjects.push({ name, locks: await openLocks(url), pairMs: [], perSecond: [] });

async function pairs(locks: Locks): Promise<number> {
  const startedAt = performance.now();
  for (let n = 0; n < PAIRS; n += 1) await (await locks.mutex(`pair-${n % 8}`).acquire()).release();
  return (performance.now() - startedAt) / PAIRS;
}

async function atOnce(locks: Locks): Promise<number> {
  const until = performance.now() + FOR_MS;
  const startedAt = performance.now();
  let done = 0;
  const task = async (n: number): Promise<void> => {
    for (; performance.now() < until; done += 1) await (await locks.mutex(`task-${n}`).acquire()).release();
  };
  await Promise.all(Array.from({ length: TASKS }, (_, n) => task(n)));
  return (done * 1_000) / (performance.now() - startedAt);
}

for (let round = 0; round <= ROUNDS; round += 1) {
  for (const { locks, pairMs, perSecond } of subjects) {
    const [ms, rate] = [await pairs(locks), await atOnce(locks)];
    // The first round warms up.
    if (round === 0) continue;
    pairMs.push(ms);
    perSecond.push(rate);
  }
}

const redisMs = median(subjects.find(({ name }) => name === 'Redis')?.pairMs ?? []);
const row = (name: string, pair: string, ratio: string, rate: string): string =>
  [name.padEnd(22), pair.padStart(18), ratio.padStart(9), rate.padStart(12)].join(' ');
console.log(row('store', 'acquire + release', 'of Redis', '100 tasks'));
for (const { name, pairMs, perSecond } of subjects) {
  const ms = median(pairMs);
  const ratio = `${(ms / redisMs).toFixed(1)} ×`;
  console.log(row(name, `${ms.toFixed(3)} ms`, ratio, `${median(perSecond).toFixed(0)}/s`));
}

for (const { locks } of subjects) await locks.close({ drainMs: 0 });
await Promise.all([redis.stop(), nodes.stop(), postgres.stop(), mysql.stop(), etcd.stop(), ensemble.stop()]);
rmSync(dir, { recursive: true, force: true });
process.exit();
