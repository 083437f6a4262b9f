import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEtcdMembers } from '../servers/etcd.ts';
import { DATABASE, mysqlRecipe } from '../servers/mysql.ts';
import { postgresRecipe } from '../servers/postgres.ts';
import { startOwnServer } from '../servers/server.ts';
import { startZookeeperMembers } from '../servers/zookeeper.ts';
import {
  type Backend,
  type BackendKind,
  type BackendOptions,
  type Parts,
  StartedBackend,
} from './backend.ts';
import { nodeOf, proxiedParts } from './proxied-parts.ts';
import { clusterParts, redisParts, redlockParts, sentinelParts } from './redis-backends.ts';

/** Starts the servers of a store. */
export async function startBackend(kind: BackendKind, options: BackendOptions = {}): Promise<Backend> {
  return new StartedBackend(kind, await STARTERS[kind](options));
}

const STARTERS: Readonly<Record<BackendKind, (options: BackendOptions) => Promise<Parts>>> = {
  sqlite: sqliteParts,
  redis: redisParts,
  sentinel: sentinelParts,
  cluster: clusterParts,
  redlock: redlockParts,
  postgres: () => postgresParts('lease'),
  advisory: () => postgresParts('advisory'),
  mysql: mysqlParts,
  etcd: etcdParts,
  zookeeper: zookeeperParts,
};

async function sqliteParts(): Promise<Parts> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-backend-'));
  const url = `sqlite:${join(folder, 'locks.db')}`;
  return {
    url,
    servers: [],
    makeRoute: async () => ({ url, proxies: [] }),
    stop: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function postgresParts(mode: 'lease' | 'advisory'): Promise<Parts> {
  const server = await startOwnServer(postgresRecipe({ settings: { max_connections: '200' } }, true));
  return proxiedParts([nodeOf(server)], (address) => `postgres://postgres@${address}/postgres?mode=${mode}`);
}

async function mysqlParts(): Promise<Parts> {
  const server = await startOwnServer(mysqlRecipe({}, true));
  return proxiedParts([nodeOf(server)], (address) => `mysql://root@${address}/${DATABASE}`);
}

async function etcdParts({ nodes = 1 }: BackendOptions): Promise<Parts> {
  return proxiedParts(await startEtcdMembers({ members: nodes }), (addresses) => `etcd://${addresses}`);
}

async function zookeeperParts({ nodes = 1, isDurable = false }: BackendOptions): Promise<Parts> {
  const members = await startZookeeperMembers({ members: nodes, isDurable });
  return proxiedParts(members, (addresses) => `zookeeper://${addresses}`);
}
