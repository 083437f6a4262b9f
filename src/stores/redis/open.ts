import type { Clock } from '../../clock.ts';
import { InvalidArgumentError, UnsupportedError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { clusterNodesOf, linkOf, type RedisClient, type RedisClusterClient } from './client.ts';
import { ClusterStore } from './cluster/cluster-store.ts';
import type { NodeRedisClient } from './node-redis-link.ts';
import { OwnClient } from './own-client.ts';
import { RedisStore } from './redis-store.ts';
import { type Hosts, hostsIn, oneHostIn } from './url.ts';

const CLUSTER_FORM = 'redis+cluster://[user:password@]host[:port],…[?prefix=TEXT]';
const SENTINEL_FORM = 'redis+sentinel://[user:password@]host[:port],…/master-name[?prefix=TEXT]';
const SENTINEL_PORT = 26_379;
/** How long a Sentinel may take to name the master. */
const SENTINEL_MS = 3_000;

interface OpenOptions {
  readonly clock?: Clock | undefined;
}

/** A store in the Redis server of a `redis://` or `rediss://` URL, through a client of its own, which `close` ends. `?prefix=` is as for `redisStore`, here and below. */
export async function openRedis(url: string, options: OpenOptions = {}): Promise<Store> {
  const { place, prefix, family } = oneHostIn(url);
  const client = await openClient(place, family === undefined ? {} : { family });
  return new RedisStore(linkOf(client), { prefix, clock: options.clock }, true);
}

/** A store in the Redis Cluster of a `redis+cluster://a,b,c` URL, likewise. */
export async function openRedisCluster(url: string, options: OpenOptions = {}): Promise<Store> {
  const hosts = hostsIn(url, CLUSTER_FORM);
  const nodes = clusterNodesOf(await openClusterClient(hosts));
  if (nodes === null) throw new UnsupportedError('The client library has no Cluster that can be used');
  return new ClusterStore(nodes, { prefix: hosts.prefix, clock: options.clock }, true);
}

/** A store in the master that the Sentinels of a `redis+sentinel://a,b,c/master-name` URL name, likewise. */
export async function openRedisSentinel(url: string, options: OpenOptions = {}): Promise<Store> {
  const hosts = hostsIn(url, SENTINEL_FORM, SENTINEL_PORT);
  if (hosts.path === '') throw new InvalidArgumentError('url', `must look like ${SENTINEL_FORM}`);
  const { Redis } = (await loadIoredis()) ?? {};
  if (Redis === undefined) throw new UnsupportedError('Redis Sentinel needs ioredis: npm install ioredis');
  const client = new Redis({
    ...OURS,
    ...loginOf(hosts),
    sentinels: hosts.addresses,
    // The Sentinels tell of a failover: otherwise a stopped master is waited for until a command has run out of time.
    failoverDetector: true,
    // One that says nothing must not be waited for: the next may, and a client that is closed meanwhile waits for it too.
    sentinelCommandTimeout: SENTINEL_MS,
    name: hosts.path,
  });
  return new RedisStore(linkOf(quiet(client)), { prefix: hosts.prefix, clock: options.clock }, true);
}

/** The core has time limits and retries of its own; the client's would only answer for it. */
const OURS = { lazyConnect: true, maxRetriesPerRequest: null } as const;

interface Ioredis {
  readonly Redis: new (url: string | object, options?: object) => RedisClient;
  readonly Cluster: new (nodes: readonly object[], options: object) => RedisClusterClient;
}

interface NodeRedis {
  createClient(options: object): NodeRedisClient;
  createCluster(options: object): RedisClusterClient & Connecting;
}

interface Connecting {
  connect(): Promise<unknown>;
}

export async function openClient(
  url: string,
  socket: { readonly family?: number } = {},
): Promise<RedisClient> {
  const ioredis = await loadIoredis();
  if (ioredis !== undefined) return quiet(new ioredis.Redis(url, { ...OURS, ...socket }));
  const own = new OwnClient((await loadNodeRedis()).createClient({ url, socket }));
  own.connect().catch(() => {});
  return own.client;
}

async function openClusterClient(hosts: Hosts): Promise<RedisClusterClient> {
  const ioredis = await loadIoredis();
  if (ioredis !== undefined) {
    return quiet(new ioredis.Cluster(hosts.addresses, { lazyConnect: true, redisOptions: loginOf(hosts) }));
  }
  const rootNodes = hosts.addresses.map(({ host, port }) => ({ socket: { host, port } }));
  return connecting(quiet((await loadNodeRedis()).createCluster({ rootNodes, defaults: loginOf(hosts) })));
}

function loginOf({ username, password }: Hosts): object {
  return { ...(username === '' ? {} : { username }), ...(password === '' ? {} : { password }) };
}

/** An error event that nobody listens to would end the process; what fails is told by the command that failed. */
function quiet<C extends { on(event: string, listener: () => void): unknown }>(client: C): C {
  client.on('error', () => {});
  return client;
}

function connecting<C extends Connecting>(client: C): C {
  client.connect().catch(() => {});
  return client;
}

function loadIoredis(): Promise<Ioredis | undefined> {
  return load<Ioredis>(() => import('ioredis'));
}

async function loadNodeRedis(): Promise<NodeRedis> {
  const redis = await load<NodeRedis>(() => import('redis'));
  if (redis !== undefined) return redis;
  throw new UnsupportedError('Redis needs a client library: npm install ioredis (or: npm install redis)');
}

/** Undefined when it is not installed. */
async function load<T>(library: () => Promise<unknown>): Promise<T | undefined> {
  try {
    return (await library()) as T;
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ERR_MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}
