import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEtcdMembers } from '../servers/etcd.ts';
import { startFaultProxy } from '../servers/fault-proxy.ts';
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
  const urlOf = (port: number): string => `postgres://postgres@127.0.0.1:${port}/postgres?mode=${mode}`;
  return {
    url: urlOf(server.port),
    servers: [server],
    makeRoute: async () => {
      const proxy = await startFaultProxy(server.port);
      return { url: urlOf(proxy.port), proxies: [proxy] };
    },
  };
}

async function mysqlParts(): Promise<Parts> {
  const server = await startOwnServer(mysqlRecipe({}, true));
  const urlOf = (port: number): string => `mysql://root@127.0.0.1:${port}/${DATABASE}`;
  return {
    url: urlOf(server.port),
    servers: [server],
    makeRoute: async () => {
      const proxy = await startFaultProxy(server.port);
      return { url: urlOf(proxy.port), proxies: [proxy] };
    },
  };
}

async function etcdParts({ nodes = 1 }: BackendOptions): Promise<Parts> {
  return membersParts('etcd', await startEtcdMembers({ members: nodes }));
}

async function zookeeperParts({ nodes = 1, isDurable = false }: BackendOptions): Promise<Parts> {
  return membersParts('zookeeper', await startZookeeperMembers({ members: nodes, isDurable }));
}

type Members = ReadonlyArray<{ readonly port: number; readonly server: Parts['servers'][number] }>;

function membersParts(scheme: string, members: Members): Parts {
  const urlOf = (ports: readonly number[]): string =>
    `${scheme}://${ports.map((port) => `127.0.0.1:${port}`).join(',')}`;
  return {
    url: urlOf(members.map(({ port }) => port)),
    servers: members.map(({ server }) => server),
    makeRoute: async () => {
      const proxies = await Promise.all(members.map(({ port }) => startFaultProxy(port)));
      return { url: urlOf(proxies.map(({ port }) => port)), proxies };
    },
  };
}
