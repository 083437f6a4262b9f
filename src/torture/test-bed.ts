import { InvalidArgumentError } from '../errors.ts';
import type { BackendKind, Route } from './backends/backend.ts';
import { startBackend } from './backends/start-backend.ts';
import { EXTREME_FAULTS, LINK_FAULTS, PROCESS_FAULTS, SERVER_FAULTS } from './faults.ts';
import { type ClockShim, makeClockShim } from './servers/clock-shim.ts';
import { type EtcdMember, etcdLeader } from './servers/etcd.ts';
import { startFaultProxy } from './servers/fault-proxy.ts';
import { exchange } from './servers/ports.ts';
import type { Server } from './servers/server.ts';
import { type Member, memberWithMode } from './servers/zookeeper.ts';

/** What `server` may name, and the backend that is started for it. */
const KINDS: Readonly<Record<string, BackendKind>> = {
  redis: 'redis',
  'redis+sentinel': 'sentinel',
  'redis+cluster': 'cluster',
  redlock: 'redlock',
  postgres: 'postgres',
  etcd: 'etcd',
  zookeeper: 'zookeeper',
  sqlite: 'sqlite',
  mysql: 'mysql',
};
export const SERVERS: readonly string[] = Object.keys(KINDS);

const PORTS: Readonly<Record<string, number>> = {
  redis: 6379,
  'redis+cluster': 6379,
  redlock: 6379,
  postgres: 5432,
  postgresql: 5432,
  mysql: 3306,
  etcd: 2379,
  zookeeper: 2181,
};
const NODES = 3;

/** What a torture runs against: servers, connections to them that fail on request, and clocks. */
export interface TestBed {
  readonly servers: readonly Server[];
  readonly serverClock: ClockShim | null;
  readonly isSessionBound: boolean;
  readonly killSignal: NodeJS.Signals;
  leader?(): Promise<Server>;
  failover?(random: () => number): Promise<void>;
  route(): Promise<Route>;
  /** How many keys a Redis has; `null` for other servers. */
  keys(): Promise<number | null>;
  /**
   * Every fault that can be injected here, including the ones that are injected only on request.
   */
  readonly faults: readonly string[];
  readonly ttlMs: number;
  stop(): Promise<void>;
}

/** Starts the server that is named, or puts proxies in front of the one at this URL. */
export async function openTestBed(server: string, faults: readonly string[] | undefined): Promise<TestBed> {
  const kind = KINDS[server];
  if (kind !== undefined) return await ownTestBed(kind, faults ?? []);
  if (!/^[a-z][a-z+]*:\/\//i.test(server))
    throw new InvalidArgumentError(
      'server',
      `must be a URL or one of ${SERVERS.join(', ')}; got "${server}"`,
    );
  return remoteTestBed(server);
}

async function ownTestBed(kind: BackendKind, asked: readonly string[]): Promise<TestBed> {
  const isRedis = kind === 'redis' || kind === 'redlock' || kind === 'sentinel';
  const serverClock = asked.includes('server-clock') && isRedis ? makeClockShim() : null;
  const env = serverClock === null ? {} : { env: serverClock.env };
  // Sentinel promotes a replica that may not have received every confirmed write: only on request.
  const hasReplicas = kind === 'cluster' || (kind === 'sentinel' && asked.includes('failover'));
  const backend = await startBackend(kind, { nodes: NODES, isDurable: true, hasReplicas, ...env });
  const leader = leaderOf(kind, backend.servers);
  const hasServers = backend.servers.length > 0;
  return {
    servers: backend.servers,
    serverClock,
    isSessionBound: kind === 'postgres',
    killSignal: kind === 'postgres' ? 'SIGQUIT' : 'SIGKILL',
    ...(leader === undefined ? {} : { leader }),
    ...(backend.failover === undefined ? {} : { failover: backend.failover }),
    route: () => backend.route(),
    keys: async () => (isRedis ? await countKeys(backend.servers) : null),
    faults: [
      ...PROCESS_FAULTS,
      ...(hasServers ? [...LINK_FAULTS, 'freeze', 'restart'] : []),
      ...(leader === undefined && backend.failover === undefined ? [] : ['failover']),
      ...(isRedis ? ['wipe'] : []),
      ...(serverClock === null ? [] : ['server-clock']),
    ],
    // A lease of etcd and a session of ZooKeeper end up to a second late.
    ttlMs: kind === 'etcd' || kind === 'zookeeper' ? 3_000 : 2_000,
    async stop() {
      await backend.stop();
      serverClock?.remove();
    },
  };
}

function leaderOf(kind: BackendKind, servers: readonly Server[]): (() => Promise<Server>) | undefined {
  const address = (port: number): string => `127.0.0.1:${port}`;
  // The URL of a member has the port for clients; its first free port is not used.
  const portOf = ({ url }: Server): number => Number(/:(\d+)$/.exec(url)?.[1] ?? 0);
  if (kind === 'etcd') {
    const members = servers.map((server, n): EtcdMember => {
      const port = portOf(server);
      return { name: `m${n}`, address: address(port), port, server };
    });
    return async () => (await etcdLeader(members)).server;
  }
  if (kind === 'zookeeper') {
    const members = servers.map((server): Member => {
      const port = portOf(server);
      return { address: address(port), port, server, links: [] };
    });
    return async () => (await memberWithMode(members, ['leader', 'standalone'])).server;
  }
  return undefined;
}

async function countKeys(servers: readonly Server[]): Promise<number> {
  const counts = await Promise.all(
    servers.map(async ({ port }) =>
      Number(/:(\d+)/.exec(await exchange(port, 'DBSIZE\r\n', 5_000))?.[1] ?? 0),
    ),
  );
  return Math.max(...counts);
}

/** A server of the user's: faults are injected into the workers and their connections only. */
function remoteTestBed(url: string): TestBed {
  const [, scheme = '', user = '', hosts = '', rest = ''] =
    /^([^:]+):\/\/([^@/]*@)?([^/?]*)(.*)$/.exec(url) ?? [];
  const proxied: { stop(): Promise<void> }[] = [];
  return {
    servers: [],
    serverClock: null,
    isSessionBound: false,
    killSignal: 'SIGKILL',
    faults: [...PROCESS_FAULTS, ...LINK_FAULTS],
    ttlMs: 2_000,
    keys: async () => null,
    async route() {
      const targets = hosts.split(',').map((each) => {
        const [, host = '', port] = /^(.*?)(?::(\d+))?$/.exec(each) ?? [];
        return { host, port: Number(port ?? PORTS[scheme] ?? 0) };
      });
      const proxies = await Promise.all(targets.map(({ host, port }) => startFaultProxy(port, host)));
      proxied.push(...proxies);
      const through = proxies.map(({ port }) => `127.0.0.1:${port}`).join(',');
      return { url: `${scheme}://${user}${through}${rest}`, proxies };
    },
    async stop() {
      await Promise.all(proxied.map((proxy) => proxy.stop()));
    },
  };
}

/** The faults to inject: the requested ones, else all that a server survives without loss. */
export function chosenFaults(testBed: TestBed, asked: readonly string[] | undefined): readonly string[] {
  const extreme: readonly string[] = EXTREME_FAULTS;
  if (asked === undefined) return testBed.faults.filter((fault) => !extreme.includes(fault));
  const unknown = asked.find((fault) => !testBed.faults.includes(fault));
  if (unknown === undefined) return asked;
  const known = [...new Set([...testBed.faults, ...SERVER_FAULTS, ...extreme])].join(', ');
  throw new InvalidArgumentError('faults', `"${unknown}" is not a fault of this server; there are ${known}`);
}
