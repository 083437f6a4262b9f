import { setTimeout as sleep } from 'node:timers/promises';
import { findProgram } from './find.ts';
import { freePorts } from './ports.ts';
import { type Recipe, type Server, type ServerInstance, startOwnServer } from './server.ts';

const ETCD = { title: 'etcd 3.4 or newer', binary: 'etcd', packages: ['etcd-server'] } as const;

export interface EtcdClusterOptions {
  /** How many members; 3 unless set. */
  readonly members?: number;
  /** More settings for every member, as on the command line. */
  readonly args?: readonly string[];
  /** Paths of PEM files: clients must show a certificate of this authority, and get one. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string };
}

export interface EtcdMember {
  readonly name: string;
  /** Where clients connect: `127.0.0.1:port`. */
  readonly address: string;
  readonly port: number;
  readonly server: Server;
}

function memberRecipe(
  name: string,
  ports: readonly [number, number, number],
  initial: string,
  { tls, args = [] }: EtcdClusterOptions,
): Recipe {
  const [clientPort, peerPort, healthPort] = ports;
  const client = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${clientPort}`;
  const peer = `http://127.0.0.1:${peerPort}`;
  const secure =
    tls === undefined
      ? []
      : ['--cert-file', tls.cert, '--key-file', tls.key, '--trusted-ca-file', tls.ca, '--client-cert-auth'];
  return {
    ...ETCD,
    urlFrom: 'HOLDFAST_ETCD_URL',
    args: ({ dir }) => [
      ...['--name', name, '--data-dir', `${dir}/data`, '--logger', 'zap', '--log-level', 'error'],
      ...['--listen-client-urls', client, '--advertise-client-urls', client],
      ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
      ...['--initial-cluster', initial, '--initial-cluster-state', 'new'],
      // Health is served without TLS, so that no certificate is needed to ask for it.
      ...['--listen-metrics-urls', `http://127.0.0.1:${healthPort}`],
      ...secure,
      ...args,
    ],
    ready: async () => {
      const ask = (what: string): Promise<Response> =>
        fetch(`http://127.0.0.1:${healthPort}/${what}`, { signal: AbortSignal.timeout(2_000) });
      // A health request to a member without a leader blocks it, and all other requests, for seven
      // seconds.
      const metrics = await (await ask('metrics')).text();
      if (!/^etcd_server_has_leader 1$/m.test(metrics)) throw new Error('no leader yet');
      const { health } = (await (await ask('health')).json()) as { health?: unknown };
      if (String(health) !== 'true') throw new Error('not healthy yet');
    },
    url: () => `etcd://127.0.0.1:${clientPort}`,
  };
}

/** A cluster of one member. */
export function etcdRecipe(): Recipe {
  const member = ({ ports: [client = 0, peer = 0, health = 0] }: ServerInstance): Recipe =>
    memberRecipe('m0', [client, peer, health], `m0=http://127.0.0.1:${peer}`, {});
  return {
    ...ETCD,
    urlFrom: 'HOLDFAST_ETCD_URL',
    ports: 3,
    args: (instance) => member(instance).args(instance),
    ready: (instance) => member(instance).ready(instance),
    url: (instance) => member(instance).url(instance),
  };
}

/** The members of a cluster of our own, to kill, pause and cut. */
export async function startEtcdMembers(options: EtcdClusterOptions = {}): Promise<EtcdMember[]> {
  const count = options.members ?? 3;
  findProgram(ETCD);
  for (let attempt = 1; ; attempt += 1) {
    const ports = await freePorts(count * 3);
    const triples = Array.from({ length: count }, (_, n): [number, number, number] => [
      ports[n] ?? 0,
      ports[n + count] ?? 0,
      ports[n + 2 * count] ?? 0,
    ]);
    const initial = triples.map(([, peer], n) => `m${n}=http://127.0.0.1:${peer}`).join(',');
    // Each is ready only when a majority is, so they start together.
    const started = await Promise.allSettled(
      triples.map((triple, n) => startOwnServer(memberRecipe(`m${n}`, triple, initial, options))),
    );
    const failed = started.find((each) => each.status === 'rejected');
    const servers = started.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    if (failed === undefined)
      return servers.map((server, n) => {
        const port = triples[n]?.[0] ?? 0;
        return { name: `m${n}`, address: `127.0.0.1:${port}`, port, server };
      });
    await Promise.all(servers.map((server) => server.stop()));
    if (attempt === 2) throw failed.reason;
  }
}

/** The member that leads now; waits for one. */
export async function etcdLeader(members: readonly EtcdMember[]): Promise<EtcdMember> {
  for (let tries = 0; tries < 600; tries += 1) {
    const found = await Promise.all(members.map((member) => leads(member)));
    const leaders = members.filter((_, n) => found[n]);
    if (leaders.length === 1 && leaders[0] !== undefined) return leaders[0];
    await sleep(50);
  }
  throw new Error('the cluster has no leader');
}

/** Whether this member says that it leads. False without an answer. */
async function leads(member: EtcdMember): Promise<boolean> {
  try {
    const answer = await fetch(`http://${member.address}/v3/maintenance/status`, {
      method: 'POST',
      body: '{}',
      signal: AbortSignal.timeout(1_000),
    });
    const { leader, header } = (await answer.json()) as { leader?: string; header?: { member_id?: string } };
    return leader !== undefined && leader !== '0' && leader === header?.member_id;
  } catch {
    return false;
  }
}
