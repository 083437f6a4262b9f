import { InvalidArgumentError, UnsupportedError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { firstInstalled } from '../shared/client-library.ts';
import { clusterNodesOf, connectionOf, type RedisClient, type RedisClusterClient } from './client.ts';
import { IOREDIS, type Ioredis, NODE_REDIS, type NodeRedis } from './client-library.ts';
import { ClusterStore } from './cluster/cluster-store.ts';
import type { IoredisNode } from './cluster/ioredis-nodes.ts';
import { keepConnecting } from './cluster/node-redis-nodes.ts';
import { addHelper, adoptSentinels, unrefIoredis } from './ioredis-client.ts';
import type { ClientEvents } from './observed-client.ts';
import { OwnClient } from './own-client.ts';
import { RedisStore, type RedisStoreOptions } from './redis-store.ts';
import { SENTINEL_PORT } from './sentinel-checks.ts';
import { type Hosts, hostsIn, oneHostIn } from './url.ts';

const CLUSTER_FORM = 'redis+cluster://[user:password@]host[:port],…[?prefix=TEXT]';
const SENTINEL_FORM = 'redis+sentinel://[user:password@]host[:port],…/master-name[?prefix=TEXT]';
/** How long a Sentinel may take to name the master. */
const SENTINEL_MS = 3_000;

/** How long one node may take to name the others. By itself, node-redis waits for a silent one for ever. */
const SEED_MS = 1_500;

type OpenOptions = Pick<RedisStoreOptions, 'clock'>;

/**
 * A store in the Redis server of a `redis://` or `rediss://` URL. It opens a client, which `close`
 * ends. `?prefix=` sets the prefix, here and in the URLs below.
 */
export async function openRedis(url: string, options: OpenOptions = {}): Promise<Store> {
  const { bareUrl, prefix, socket } = oneHostIn(url);
  const client = await openClient(bareUrl, socket);
  return new RedisStore(connectionOf(client, true), { prefix, clock: options.clock }, true);
}

/** The same in the Redis Cluster of a `redis+cluster://a,b,c` URL. */
export async function openRedisCluster(url: string, options: OpenOptions = {}): Promise<Store> {
  const hosts = hostsIn(url, CLUSTER_FORM);
  const nodes = clusterNodesOf(await openClusterClient(hosts));
  if (nodes === null) throw new UnsupportedError('The client library has no Cluster that can be used');
  return new ClusterStore(nodes, { prefix: hosts.prefix, clock: options.clock }, true);
}

/** The same in the master that the Sentinels of a `redis+sentinel://a,b,c/master-name` URL name. */
export async function openRedisSentinel(url: string, options: OpenOptions = {}): Promise<Store> {
  const hosts = hostsIn(url, SENTINEL_FORM, SENTINEL_PORT);
  if (hosts.path === '') throw new InvalidArgumentError('url', `must look like ${SENTINEL_FORM}`);
  const { library } = await firstInstalled('Redis Sentinel', [IOREDIS]);
  const client = new library.Redis({
    ...OURS,
    ...loginOf(hosts),
    sentinels: hosts.addresses,
    // The Sentinels announce a failover. Otherwise a command to a stopped master times out first.
    failoverDetector: true,
    // After it the next Sentinel is asked. A client that is closed waits for this too.
    sentinelCommandTimeout: SENTINEL_MS,
    name: hosts.path,
  });
  adoptSentinels(client);
  const connection = connectionOf(quiet(unrefIoredis(client)), true);
  return new RedisStore(connection, { prefix: hosts.prefix, clock: options.clock }, true);
}

/** The core has time limits and retries of its own. Those of the client would come before them. */
const OURS = { lazyConnect: true, maxRetriesPerRequest: null } as const;

export async function openClient(
  url: string,
  socket: { readonly family?: number } = {},
): Promise<RedisClient> {
  const library = await load();
  if ('Redis' in library) return quiet(unrefIoredis(new library.Redis(url, { ...OURS, ...socket })));
  const own = new OwnClient(library.createClient({ url, socket }));
  own.connect().catch(() => {});
  return own.client;
}

async function openClusterClient(hosts: Hosts): Promise<RedisClusterClient> {
  const library = await load();
  if ('Cluster' in library) {
    const options = { lazyConnect: true, redisOptions: loginOf(hosts) };
    const cluster = quiet(unrefIoredis(new library.Cluster(hosts.addresses, options)));
    cluster.on('+node', (node: unknown) => adoptNode(cluster, node as IoredisNode));
    return cluster;
  }
  const limits = { connectTimeout: SEED_MS, socketTimeout: SEED_MS };
  const rootNodes = hosts.addresses.map((address) => ({ socket: { ...address, ...limits } }));
  const cluster = quiet(library.createCluster({ rootNodes, defaults: loginOf(hosts) }));
  cluster.on('node-connect', () => {
    for (const { client } of cluster.nodeByAddress.values()) client?.unref?.();
  });
  void keepConnecting(cluster);
  return cluster;
}

/** ioredis asks for the slots over copies of the nodes' clients. */
function adoptNode(cluster: object, node: IoredisNode): void {
  unrefIoredis(node);
  const { duplicate } = node;
  node.duplicate = (override) => {
    const copy = duplicate.call(node, override);
    addHelper(cluster, copy);
    return copy;
  };
}

function loginOf({ username, password }: Hosts): object {
  return { ...(username === '' ? {} : { username }), ...(password === '' ? {} : { password }) };
}

/** An error event without a listener would end the process. Failed commands say what is wrong. */
function quiet<Client extends ClientEvents>(client: Client): Client {
  client.on('error', () => {});
  return client;
}

async function load(): Promise<Ioredis | NodeRedis> {
  return (await firstInstalled<Ioredis | NodeRedis>('Redis', [IOREDIS, NODE_REDIS])).library;
}
