import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLocks } from 'holdfast';
import { sqliteStore } from 'holdfast/sqlite';
import lockfile from 'proper-lockfile';
import { startRedis } from '../../src/torture/servers/redis.ts';
import { startEtcdCluster } from '../../test/support/servers/etcd.ts';
import { startMysql } from '../../test/support/servers/mysql.ts';
import { startPostgres } from '../../test/support/servers/postgres.ts';
import { startRedisNodes } from '../../test/support/servers/redis-nodes.ts';
import { startEnsemble } from '../../test/support/servers/zookeeper.ts';
import { etcd3Lock, floor as etcdFloor, holdfast as onEtcd } from '../etcd/contenders.ts';
import { floor as mysqlFloor, holdfast as onMysql } from '../mysql/contenders.ts';
import { advisory, floorOnPg } from '../postgres/advisory.ts';
import { holdfast as onPostgres, floor as postgresFloor, verrou } from '../postgres/contenders.ts';
import { fenced, floor, holdfast, peers } from '../redis/contenders.ts';
import { redlockContenders } from '../redis/redlock.ts';
import type { Contender } from '../shared/contender.ts';
import { openDatabase, rawLock } from '../sqlite/uncontended.ts';
import { holdfast as onZookeeper, floor as zookeeperFloor } from '../zookeeper/contenders.ts';
import type { Kind } from './data.ts';

/** One way to acquire a lock, and its role in the comparison. */
export interface Entrant {
  readonly kind: Kind;
  readonly contender: Contender;
}

/** A server with everything that is compared on it. */
export interface Subject {
  readonly store: string;
  readonly entrants: readonly Entrant[];
  stop(): Promise<void>;
}

type StartSubject = () => Promise<Subject>;

/** A floor says so in its name; the other kinds have fixed names. */
function kindOf(name: string): Kind {
  if (/^floor|^bare/.test(name)) return 'floor';
  return name.startsWith('holdfast') ? 'holdfast' : 'peer';
}

async function subjectOf(
  store: string,
  made: readonly (Contender | Promise<Contender>)[],
  stop: () => Promise<unknown>,
): Promise<Subject> {
  const contenders = await Promise.all(made);
  return {
    store,
    entrants: contenders.map((contender) => ({ kind: kindOf(contender.name), contender })),
    async stop() {
      for (const contender of contenders) await contender.close();
      await stop();
    },
  };
}

async function redis(): Promise<Subject> {
  const server = await startRedis();
  const made = [floor, fenced, holdfast, ...peers].map((make) => make(server.url));
  return await subjectOf('Redis', made, () => server.stop());
}

async function redlock(): Promise<Subject> {
  const nodes = await startRedisNodes(5);
  return await subjectOf('Redlock, 5 nodes', redlockContenders(nodes.urls), () => nodes.stop());
}

const DURABLE = { fsync: 'on', full_page_writes: 'on', shared_buffers: '128MB' };

async function leases(): Promise<Subject> {
  const server = await startPostgres({ settings: DURABLE });
  const made = [postgresFloor, onPostgres, verrou].map((make) => make(server.url));
  return await subjectOf('PostgreSQL leases', made, () => server.stop());
}

async function advisoryLocks(): Promise<Subject> {
  const server = await startPostgres({ settings: DURABLE });
  const made = [floorOnPg, advisory].map((make) => make(server.url));
  return await subjectOf('PostgreSQL advisory', made, () => server.stop());
}

async function mysql(): Promise<Subject> {
  const settings = { 'innodb-flush-log-at-trx-commit': '1', 'innodb-doublewrite': '1' };
  const server = await startMysql({ settings });
  const url = await server.createDatabase();
  const made = [mysqlFloor, onMysql].map((make) => make(url));
  return await subjectOf('MySQL (MariaDB)', made, () => server.stop());
}

async function etcd(): Promise<Subject> {
  const cluster = await startEtcdCluster();
  const hosts = cluster.addresses.map((address) => `http://${address}`);
  const made = [etcdFloor, onEtcd, etcd3Lock].map((make) => make(hosts));
  return await subjectOf('etcd, 3 members', made, () => cluster.stop());
}

async function zookeeper(): Promise<Subject> {
  const ensemble = await startEnsemble({ isDurable: true });
  const made = [zookeeperFloor, onZookeeper].map((make) => make(ensemble.address));
  return await subjectOf('ZooKeeper, 3 members', made, () => ensemble.stop());
}

async function sqlite(): Promise<Subject> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-performance-'));
  const { database } = openDatabase(join(folder, 'raw.db'));
  const acquireRaw = rawLock(database);
  const locks = createLocks(sqliteStore(join(folder, 'ours.db')));
  let count = 0;
  const raw: Contender = {
    name: 'floor: two statements',
    async acquire(lock) {
      const release = acquireRaw(lock, count++);
      return async () => release();
    },
    close: () => void database.close(),
  };
  const own: Contender = {
    name: 'holdfast',
    async acquire(lock) {
      const hold = await locks.mutex(lock).acquire();
      return () => hold.release();
    },
    close: () => locks.close(),
  };
  const files: Contender = {
    name: 'proper-lockfile',
    async acquire(lock) {
      const file = join(folder, lock);
      writeFileSync(file, '', { flag: 'a' });
      return await lockfile.lock(file);
    },
    close: () => {},
  };
  const stop = async (): Promise<void> => rmSync(folder, { recursive: true, force: true });
  return await subjectOf('SQLite', [raw, own, files], stop);
}

/**
 * Started one after the other, so that no idle server takes part in the measurements of another.
 */
export const SUBJECTS: readonly StartSubject[] = [
  redis,
  redlock,
  leases,
  advisoryLocks,
  mysql,
  etcd,
  zookeeper,
  sqlite,
];
