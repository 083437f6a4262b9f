import { InvalidArgumentError } from './errors.ts';
import type { LocksOptions } from './options.ts';
import type { Store } from './store/store.ts';
import { memoryStore } from './stores/memory/memory-store.ts';
import { checkParameters, splitQuery } from './stores/shared/url.ts';

interface OpenOptions extends Pick<LocksOptions, 'clock'> {
  /** Leaves a file that cannot be used to the first call, so that `diagnose` can say what is wrong. */
  readonly openLater?: boolean | undefined;
}
type Opener = (url: string, options: OpenOptions) => Promise<Store>;

const openMemory: Opener = async (url, { clock }) => {
  checkParameters(splitQuery(url)[1], []);
  return memoryStore({ clock });
};
const openRedis: Opener = async (url, options) =>
  (await import('./stores/redis/open.ts')).openRedis(url, options);
const openRedisCluster: Opener = async (url, options) =>
  (await import('./stores/redis/open.ts')).openRedisCluster(url, options);
const openRedisSentinel: Opener = async (url, options) =>
  (await import('./stores/redis/open.ts')).openRedisSentinel(url, options);
const openRedlock: Opener = async (url, options) =>
  (await import('./stores/redlock/open.ts')).openRedlock(url, options);
const openEtcd: Opener = async (url, options) =>
  (await import('./stores/etcd/open.ts')).openEtcd(url, options);
const openPostgres: Opener = async (url, options) =>
  (await import('./stores/postgres/open.ts')).openPostgres(url, options);
const openMysql: Opener = async (url, options) =>
  (await import('./stores/mysql/open.ts')).openMysql(url, options);
const openSqlite: Opener = async (url, options) =>
  (await import('./stores/sqlite/open.ts')).openSqlite(url, options);
const openZookeeper: Opener = async (url, options) =>
  (await import('./stores/zookeeper/open.ts')).openZookeeper(url, options);

/** Each backend is loaded when it is opened, so that the core needs no client library. */
const OPENERS: ReadonlyMap<string, Opener> = new Map([
  ['memory', openMemory],
  ['sqlite', openSqlite],
  ['redis', openRedis],
  ['rediss', openRedis],
  ['redis+cluster', openRedisCluster],
  ['redis+sentinel', openRedisSentinel],
  ['redlock', openRedlock],
  ['etcd', openEtcd],
  ['postgres', openPostgres],
  ['postgresql', openPostgres],
  ['mysql', openMysql],
  ['zookeeper', openZookeeper],
]);

/** In lower case. Throws `InvalidArgumentError` when no store has URLs like this one. */
export function schemeOf(url: string): string {
  const scheme = typeof url === 'string' ? /^([a-z][a-z+]*):/i.exec(url)?.[1]?.toLowerCase() : undefined;
  if (scheme !== undefined && OPENERS.has(scheme)) return scheme;
  throw new InvalidArgumentError('url', `must begin with one of ${[...OPENERS.keys()].join(': ')}:`);
}

/** The store of a URL, not connected yet. `openLocks` says what a URL looks like. */
export async function openStore(url: string, options: OpenOptions): Promise<Store> {
  const open = OPENERS.get(schemeOf(url)) ?? openMemory;
  return await open(url, options);
}
