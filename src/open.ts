import { InvalidArgumentError, UnsupportedError } from './errors.ts';
import { createLocks, type Locks } from './locks.ts';
import { type LocksOptions, resolveLocksOptions } from './options.ts';
import type { Store } from './store/store.ts';
import { memoryStore } from './stores/memory/memory-store.ts';
import { checkParameters, splitQuery } from './stores/url-query.ts';

type Opener = (url: string, options: LocksOptions) => Promise<Store>;

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
  (await import('./stores/quorum/open.ts')).openRedlock(url, options);
const openEtcd: Opener = async (url, options) =>
  (await import('./stores/etcd/open.ts')).openEtcd(url, options);
const openPostgres: Opener = async (url, options) =>
  (await import('./stores/postgres/open.ts')).openPostgres(url, options);
const openSqlite: Opener = async (url, options) =>
  (await import('./stores/sqlite/open.ts')).openSqlite(url, options);
const openZookeeper: Opener = async (url, options) =>
  (await import('./stores/zookeeper/open.ts')).openZookeeper(url, options);

/** Each backend is loaded when it is asked for, so that the core needs no client library. */
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
  ['zookeeper', openZookeeper],
]);

/**
 * Opens locks by a URL: `memory:`, `sqlite:./locks.db`, `redis://host:6379/0`, `rediss://…`, `redis+cluster://a,b,c`, `redis+sentinel://a,b,c/master-name`, `redlock://a,b,c,d,e`,
 * `postgres://…?mode=lease` or `?mode=advisory`, `etcd://a,b,c`, `zookeeper://a,b,c/chroot`. The page of each store says which parameters its URL takes. Rejects with `InvalidArgumentError` for a
 * URL, a parameter of it or an option that is not known (the text never repeats the URL, which may hold a password), and with `UnsupportedError`, naming the package to install, when the client library is missing.
 */
export async function openLocks(url: string, options: LocksOptions = {}): Promise<Locks> {
  const scheme = typeof url === 'string' ? /^([a-z][a-z+]*):/i.exec(url)?.[1]?.toLowerCase() : undefined;
  const open = OPENERS.get(scheme ?? '');
  if (open === undefined) {
    throw new InvalidArgumentError('url', `must begin with one of ${[...OPENERS.keys()].join(': ')}:`);
  }
  if (options?.renewal === 'thread')
    throw new UnsupportedError('Renewal in a thread of its own is not built yet');
  // A bad option is found before anything is opened.
  resolveLocksOptions(options);
  const store = await open(url, options);
  return createLocks(store, options);
}
