import type { Cluster as IoredisCluster, Redis } from 'ioredis';
import type { Store } from '../../../src/index.ts';
import { etcdStore } from '../../../src/stores/etcd/index.ts';
import { mysqlStore } from '../../../src/stores/mysql/index.ts';
import { postgresAdvisoryStore, postgresLeaseStore } from '../../../src/stores/postgres/index.ts';
import { type RedisClient, redisStore, redlockStore } from '../../../src/stores/redis/index.ts';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { zookeeperStore } from '../../../src/stores/zookeeper/index.ts';
import type { BackendKind } from '../../../src/torture/backends/backend.ts';
import type { PgLibrary } from '../clients/postgres-pools.ts';

// Client libraries are imported when they are used: all of them together take longer to load than
// the rest of the program.

/** The client libraries that a user may bring to each store. */
export const LIBRARIES: Readonly<Record<BackendKind, readonly string[]>> = {
  sqlite: ['libsql'],
  redis: ['ioredis', 'node-redis', 'ioredis 5', 'node-redis 5'],
  sentinel: ['ioredis', 'node-redis'],
  cluster: ['ioredis', 'node-redis', 'ioredis 5', 'node-redis 5'],
  redlock: ['ioredis', 'node-redis'],
  postgres: ['pg.Pool', 'postgres.js'],
  advisory: ['pg.Pool', 'postgres.js'],
  mysql: ['mysql2'],
  etcd: ['etcd3'],
  zookeeper: ['node-zookeeper-client'],
};

/** A store over clients of a user, with a way to inspect and close them. */
export interface OwnStore {
  readonly store: Store;
  /** How many listeners are on the clients, all events together. */
  listeners(): number;
  close(): Promise<void>;
}

interface Emitter {
  on(event: string, listener: () => void): unknown;
  eventNames(): readonly (string | symbol)[];
  listenerCount(event: string | symbol): number;
}

const countOf = (client: Emitter): number =>
  client.eventNames().reduce((sum, event) => sum + client.listenerCount(event), 0);

/** Errors are swallowed, as a user's own listener would. */
function owned(store: Store, clients: readonly unknown[], end: () => unknown): OwnStore {
  const emitters = clients.filter(
    (client): client is Emitter => typeof (client as Emitter).on === 'function',
  );
  return {
    store,
    listeners: () => emitters.reduce((sum, client) => sum + countOf(client), 0),
    close: async () => void (await end()),
  };
}

const addressesIn = (url: string): { host: string; port: number }[] =>
  url
    .replace(/^[^/]*\/\//, '')
    .replace(/[/?].*$/, '')
    .split(',')
    .map((each) => ({ host: '127.0.0.1', port: Number(each.split(':')[1]) }));

const hostsIn = (url: string): string[] => addressesIn(url).map(({ host, port }) => `${host}:${port}`);

interface NodeRedisLike extends Emitter {
  connect(): Promise<unknown>;
  destroy(): unknown;
}

function connecting<C extends NodeRedisLike>(client: C): C {
  client.on('error', () => {});
  client.connect().catch(() => {});
  return client;
}

async function redisClient(
  library: string,
  port: number,
): Promise<{ client: RedisClient & Emitter; end(): unknown }> {
  if (library.startsWith('ioredis')) {
    const options = { port, host: '127.0.0.1', maxRetriesPerRequest: null };
    const client =
      library === 'ioredis'
        ? new (await import('ioredis')).Redis(options)
        : (new (await import('ioredis5')).Redis(options) as unknown as Redis);
    client.on('error', () => {});
    return { client, end: () => client.disconnect() };
  }
  const url = `redis://127.0.0.1:${port}`;
  const client = connecting(
    library === 'node-redis'
      ? (await import('redis')).createClient({ url })
      : (await import('redis5')).createClient({ url }),
  );
  return { client: client as RedisClient & Emitter, end: () => client.destroy() };
}

async function openCluster(library: string, url: string): Promise<OwnStore> {
  const nodes = addressesIn(url);
  if (library.startsWith('ioredis')) {
    const { Cluster } = library === 'ioredis' ? await import('ioredis') : await import('ioredis5');
    const client = new Cluster(nodes) as unknown as IoredisCluster;
    client.on('error', () => {});
    return owned(redisStore(client), [client], () => client.disconnect());
  }
  const options = { rootNodes: nodes.map(({ host, port }) => ({ url: `redis://${host}:${port}` })) };
  const client = connecting(
    library === 'node-redis'
      ? (await import('redis')).createCluster(options)
      : ((await import('redis5')).createCluster(options) as never),
  );
  return owned(redisStore(client), [client], () => client.destroy());
}

async function openSentinel(library: string, url: string): Promise<OwnStore> {
  const sentinels = addressesIn(url);
  const name = url.replace(/^.*\//, '');
  if (library === 'ioredis') {
    const { Redis } = await import('ioredis');
    const client = new Redis({ sentinels, name, maxRetriesPerRequest: null });
    client.on('error', () => {});
    return owned(redisStore(client), [client], () => client.disconnect());
  }
  const { createSentinel } = await import('redis');
  const client = connecting(createSentinel({ name, sentinelRootNodes: sentinels }));
  return owned(redisStore(client), [client], () => client.destroy());
}

async function openPostgres(kind: BackendKind, library: string, url: string): Promise<OwnStore> {
  const { makePool } = await import('../clients/postgres-pools.ts');
  const pool = makePool(library as PgLibrary, url.replace(/\?.*/, ''));
  if (library === 'pg.Pool') (pool as unknown as Emitter).on('error', () => {});
  const store = kind === 'postgres' ? postgresLeaseStore(pool) : postgresAdvisoryStore(pool);
  return owned(store, library === 'pg.Pool' ? [pool] : [], () =>
    (pool as unknown as { end(): Promise<void> }).end(),
  );
}

async function openMysql(url: string): Promise<OwnStore> {
  const { default: mysql } = await import('mysql2');
  const pool = mysql.createPool(url);
  return owned(mysqlStore(pool), [pool], () => pool.promise().end());
}

async function openZookeeper(url: string): Promise<OwnStore> {
  const { default: zookeeper } = await import('node-zookeeper-client');
  const client = zookeeper.createClient(hostsIn(url).join(','), { sessionTimeout: 4_000, spinDelay: 100 });
  client.connect();
  return owned(zookeeperStore(client), [client], () => client.close());
}

async function openEtcd(url: string): Promise<OwnStore> {
  const { Etcd3 } = await import('etcd3');
  const client = new Etcd3({ hosts: hostsIn(url) });
  return owned(etcdStore(client), [], () => client.close());
}

/** A store as a user of this library would make it. */
export async function openOwn(kind: BackendKind, library: string, url: string): Promise<OwnStore> {
  if (kind === 'sqlite') return owned(sqliteStore(url.replace(/^sqlite:/, '')), [], () => {});
  if (kind === 'cluster') return await openCluster(library, url);
  if (kind === 'sentinel') return await openSentinel(library, url);
  if (kind === 'postgres' || kind === 'advisory') return await openPostgres(kind, library, url);
  if (kind === 'mysql') return await openMysql(url);
  if (kind === 'zookeeper') return await openZookeeper(url);
  if (kind === 'etcd') return await openEtcd(url);
  const clients = await Promise.all(addressesIn(url).map(({ port }) => redisClient(library, port)));
  const own = clients.map(({ client }) => client);
  const [first] = own;
  if (first === undefined) throw new Error(`no address in ${url}`);
  const store = kind === 'redis' ? redisStore(first) : redlockStore(own);
  return owned(store, own, () => clients.map(({ end }) => end()));
}
