import { setTimeout as sleep } from 'node:timers/promises';
import { startFaultProxy } from '../servers/fault-proxy.ts';
import { exchange } from '../servers/ports.ts';
import { startRedis } from '../servers/redis.ts';
import { MASTER, sentinelRecipe } from '../servers/redis-sentinel.ts';
import { type Server, startOwnServer } from '../servers/server.ts';
import type { BackendOptions, Parts } from './backend.ts';
import { nodeOf, proxiedParts } from './proxied-parts.ts';

const SLOTS = 16_384;
const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always'] as const;
/** How long a Cluster may take to serve. */
const JOIN_MS = 30_000;

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
 * One master behind a proxy, and a Sentinel that knows it by the proxy's port. It never fails over.
 */
export async function sentinelParts(options: BackendOptions): Promise<Parts> {
  const master = await startRedis({ args: argsOf(options), ...envOf(options) });
  const proxy = await startFaultProxy(master.port);
  const sentinel = await startOwnServer(sentinelRecipe(proxy.port));
  const front = await startFaultProxy(sentinel.port);
  return {
    url: master.url,
    servers: [master],
    makeRoute: async () => ({
      url: `redis+sentinel://127.0.0.1:${front.port}/${MASTER}`,
      proxies: [proxy, front],
    }),
    stop: () => sentinel.stop(),
  };
}

/** Masters without replicas, each behind the proxy that it announces to clients. */
export async function clusterParts(options: BackendOptions): Promise<Parts> {
  const servers: Server[] = [];
  const count = options.nodes ?? 1;
  const proxies = await Promise.all(
    Array.from({ length: count }, (_, n) => startFaultProxy(() => servers[n]?.port ?? 0)),
  );
  for (const proxy of proxies) {
    const announced = ['--cluster-announce-ip', '127.0.0.1', '--cluster-announce-port', `${proxy.port}`];
    const limit = ['--cluster-node-timeout', '30000', '--cluster-require-full-coverage', 'no'];
    servers.push(await startRedis({ cluster: true, args: [...announced, ...limit, ...argsOf(options)] }));
  }
  await join(servers);
  const url = `redis+cluster://${proxies.map(({ port }) => `127.0.0.1:${port}`).join(',')}`;
  return { url, servers, makeRoute: async () => ({ url, proxies }) };
}

async function join(servers: readonly Server[]): Promise<void> {
  const tell = async ({ port }: Server, command: string): Promise<string> =>
    await exchange(port, `${command}\r\n`, 5_000);
  const share = Math.ceil(SLOTS / servers.length);
  for (const [n, server] of servers.entries()) {
    const last = Math.min((n + 1) * share, SLOTS) - 1;
    await tell(server, `CLUSTER ADDSLOTSRANGE ${n * share} ${last}`);
    await tell(server, `CLUSTER SET-CONFIG-EPOCH ${n + 1}`);
  }
  const [first, ...others] = servers;
  for (const other of first === undefined ? [] : others) {
    const bus = /\r\n(\d+)\r\n$/.exec(await tell(other, 'CONFIG GET cluster-port'))?.[1] ?? '';
    await tell(first as Server, `CLUSTER MEET 127.0.0.1 ${other.port} ${bus}`);
  }
  const known = `cluster_known_nodes:${servers.length}`;
  for (const giveUpAt = performance.now() + JOIN_MS; ; await sleep(25)) {
    const infos = await Promise.all(servers.map((server) => tell(server, 'CLUSTER INFO')));
    if (infos.every((info) => info.includes('cluster_state:ok') && info.includes(known))) return;
    if (performance.now() > giveUpAt) throw new Error(`the cluster did not come up: ${infos.join('')}`);
  }
}
