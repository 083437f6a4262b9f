import { setTimeout as sleep } from 'node:timers/promises';
import { type FaultProxy, startFaultProxy } from '../servers/fault-proxy.ts';
import { exchange } from '../servers/ports.ts';
import { type RedisOptions, startRedis } from '../servers/redis.ts';
import { MASTER, sentinelRecipe } from '../servers/redis-sentinel.ts';
import { type Server, startOwnServer } from '../servers/server.ts';
import type { BackendOptions, Parts } from './backend.ts';
import { nodeOf, proxiedParts } from './proxied-parts.ts';

const SLOTS = 16_384;
const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always'] as const;
/** How long a Cluster may take to serve. */
const JOIN_MS = 30_000;
/** How long a replica may take to become a master; the run continues after that. */
const FAILOVER_MS = 10_000;

const argsOf = ({ isDurable }: BackendOptions): readonly string[] => (isDurable === true ? DURABLE : []);
const envOf = ({ env }: BackendOptions): { env?: NodeJS.ProcessEnv } => (env === undefined ? {} : { env });

export async function redisParts(options: BackendOptions): Promise<Parts> {
  const server = await startRedis({ args: argsOf(options), ...envOf(options) });
  return proxiedParts([nodeOf(server)], (address) => `redis://${address}`);
}

export async function redlockParts(options: BackendOptions): Promise<Parts> {
  const count = options.nodes ?? 3;
  const servers = await Promise.all(
    Array.from({ length: count }, () => startRedis({ args: argsOf(options), ...envOf(options) })),
  );
  return proxiedParts(servers.map(nodeOf), (addresses) => `redlock://${addresses}`);
}

/**
 * A master behind a proxy, with a replica if that is wanted, and a Sentinel that knows them by the
 * ports of their proxies. It never fails over by itself.
 */
export async function sentinelParts(options: BackendOptions): Promise<Parts> {
  const nodes = await announcedNodes(options.hasReplicas === true ? 2 : 1, (port) => ({
    args: ['--replica-announce-ip', '127.0.0.1', '--replica-announce-port', `${port}`, ...argsOf(options)],
    ...envOf(options),
  }));
  const [master, replica] = nodes as [AnnouncedNode, AnnouncedNode?];
  if (replica !== undefined) await tell(replica.server, `REPLICAOF 127.0.0.1 ${master.proxy.port}`);
  const sentinel = await startOwnServer(sentinelRecipe(master.proxy.port));
  const front = await startFaultProxy(sentinel.port);
  const parts: Parts = {
    url: master.server.url,
    servers: nodes.map(({ server }) => server),
    makeRoute: async () => ({
      url: `redis+sentinel://127.0.0.1:${front.port}/${MASTER}`,
      proxies: [...nodes.map(({ proxy }) => proxy), front],
    }),
    stop: () => sentinel.stop(),
  };
  if (replica === undefined) return parts;
  await until(async () => (await tell(sentinel, `SENTINEL REPLICAS ${MASTER}`)).startsWith('*1'), JOIN_MS);
  const masterAddress = (): Promise<string> => tell(sentinel, `SENTINEL GET-MASTER-ADDR-BY-NAME ${MASTER}`);
  return {
    ...parts,
    url: `redis+sentinel://127.0.0.1:${sentinel.port}/${MASTER}`,
    async failover() {
      const before = await masterAddress();
      await tell(sentinel, `SENTINEL FAILOVER ${MASTER}`);
      await until(async () => (await masterAddress()) !== before, FAILOVER_MS);
    },
  };
}

/**
 * Masters, with a replica each if that is wanted. Each is behind the proxy that it announces to
 * clients.
 */
export async function clusterParts(options: BackendOptions): Promise<Parts> {
  const masters = options.nodes ?? 1;
  const limits = ['--cluster-node-timeout', '30000', '--cluster-require-full-coverage', 'no'];
  const nodes = await announcedNodes(options.hasReplicas === true ? 2 * masters : masters, (port) => ({
    cluster: true,
    args: [
      ...['--cluster-announce-ip', '127.0.0.1', '--cluster-announce-port', `${port}`],
      ...[...limits, '--repl-diskless-sync-delay', '0', ...argsOf(options)],
    ],
  }));
  const servers = nodes.map(({ server }) => server);
  const proxies = nodes.map(({ proxy }) => proxy);
  await join(servers, masters);
  const url = `redis+cluster://${proxies.map(({ port }) => `127.0.0.1:${port}`).join(',')}`;
  const parts: Parts = { url, servers, makeRoute: async () => ({ url, proxies }) };
  if (options.hasReplicas !== true) return parts;
  return {
    ...parts,
    async failover(random) {
      const roles = await Promise.all(servers.map(roleOf));
      const replicas = servers.filter((_, n) => roles[n] === 'slave');
      const replica = replicas[Math.floor(random() * replicas.length)];
      if (replica === undefined) return;
      // The master waits until the replica has received every write that it confirmed.
      await tell(replica, 'CLUSTER FAILOVER');
      await until(async () => (await roleOf(replica)) === 'master', FAILOVER_MS);
    },
  };
}

/** A server that clients reach by the port of its proxy, which it announces. */
interface AnnouncedNode {
  readonly server: Server;
  readonly proxy: FaultProxy;
}

async function announcedNodes(
  count: number,
  optionsOf: (port: number) => RedisOptions,
): Promise<AnnouncedNode[]> {
  const nodes: AnnouncedNode[] = [];
  for (let n = 0; n < count; n += 1) {
    const proxy = await startFaultProxy(() => nodes[n]?.server.port ?? 0);
    nodes.push({ proxy, server: await startRedis(optionsOf(proxy.port)) });
  }
  return nodes;
}

async function tell({ port }: { readonly port: number }, command: string): Promise<string> {
  return await exchange(port, `${command}\r\n`, 5_000);
}

/** `master` or `slave`; empty while the server does not answer. */
async function roleOf(server: Server): Promise<string> {
  const answer = await tell(server, 'ROLE').catch(() => '');
  return /\r\n(master|slave)\r\n/.exec(answer)?.[1] ?? '';
}

/** Polls for at most this time. Resolves to whether the condition was met. */
async function until(isMet: () => Promise<boolean>, forMs: number): Promise<boolean> {
  for (const giveUpAt = performance.now() + forMs; performance.now() < giveUpAt; await sleep(25))
    if (await isMet().catch(() => false)) return true;
  return false;
}

/** Gives the slots to the first `masters` servers; the others replicate them, in the same order. */
async function join(servers: readonly Server[], masters: number): Promise<void> {
  const share = Math.ceil(SLOTS / masters);
  for (const [n, server] of servers.entries()) {
    const last = Math.min((n + 1) * share, SLOTS) - 1;
    if (n < masters) await tell(server, `CLUSTER ADDSLOTSRANGE ${n * share} ${last}`);
    await tell(server, `CLUSTER SET-CONFIG-EPOCH ${n + 1}`);
  }
  const [first, ...others] = servers;
  for (const other of first === undefined ? [] : others) {
    const bus = /\r\n(\d+)\r\n$/.exec(await tell(other, 'CONFIG GET cluster-port'))?.[1] ?? '';
    await tell(first as Server, `CLUSTER MEET 127.0.0.1 ${other.port} ${bus}`);
  }
  const known = `cluster_known_nodes:${servers.length}`;
  const isWhole = async (): Promise<boolean> => {
    const infos = await Promise.all(servers.map((server) => tell(server, 'CLUSTER INFO')));
    return infos.every((info) => info.includes('cluster_state:ok') && info.includes(known));
  };
  if (!(await until(isWhole, JOIN_MS))) throw new Error('the cluster did not come up');
  for (const [n, replica] of servers.slice(masters).entries()) {
    const id = /\r\n(\w{40})\r\n/.exec(await tell(servers[n] as Server, 'CLUSTER MYID'))?.[1] ?? '';
    await tell(replica, `CLUSTER REPLICATE ${id}`);
    // A master refuses a failover to a replica that it does not know yet.
    const isReady = async (): Promise<boolean> => {
      const known = await tell(servers[n] as Server, `CLUSTER REPLICAS ${id}`);
      return known.includes(`slave ${id}`) && (await isInSync(replica));
    };
    if (!(await until(isReady, JOIN_MS))) throw new Error('a replica did not receive the data of its master');
  }
}

async function isInSync(replica: Server): Promise<boolean> {
  return (await tell(replica, 'INFO replication')).includes('master_link_status:up');
}
