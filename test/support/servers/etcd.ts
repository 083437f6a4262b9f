import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Etcd3, type IOptions } from 'etcd3';
import { findProgram } from './find.ts';
import { freePorts } from './ports.ts';
import { type Place, type Recipe, type Server, startOwnServer } from './server.ts';

const ETCD = { title: 'etcd 3.4 or newer', binary: 'etcd', packages: ['etcd-server'] } as const;
const ETCDCTL = { title: 'etcdctl', binary: 'etcdctl', packages: ['etcd-client'] } as const;

export interface EtcdClusterOptions {
  /** How many members; 3 unless told. */
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

export interface EtcdCluster extends AsyncDisposable {
  readonly members: readonly EtcdMember[];
  readonly addresses: readonly string[];
  /** A client of the cluster, of one member or of a proxy; closed with the cluster. */
  client(options?: Partial<IOptions>): Etcd3;
  /** The member that leads now; waits for one. */
  leader(): Promise<EtcdMember>;
  /** Runs etcdctl against the members that are up. */
  etcdctl(...args: string[]): Promise<string>;
  /** Resolves when a write goes through. */
  writable(): Promise<void>;
  stop(): Promise<void>;
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
      // Health is told without TLS, so that a member can be asked for it without a certificate.
      ...['--listen-metrics-urls', `http://127.0.0.1:${healthPort}`],
      ...secure,
      ...args,
    ],
    ready: async () => {
      const ask = (what: string): Promise<Response> =>
        fetch(`http://127.0.0.1:${healthPort}/${what}`, { signal: AbortSignal.timeout(2_000) });
      // Whoever asks for its health while it knows no leader keeps it, and everybody else, waiting for seven seconds.
      const metrics = await (await ask('metrics')).text();
      if (!/^etcd_server_has_leader 1$/m.test(metrics)) throw new Error('no leader yet');
      const { health } = (await (await ask('health')).json()) as { health?: unknown };
      if (String(health) !== 'true') throw new Error('not healthy yet');
    },
    url: () => `etcd://127.0.0.1:${clientPort}`,
  };
}

/** One member, for whoever needs no more than an etcd. */
export function etcdRecipe(): Recipe {
  const member = ({ ports: [client = 0, peer = 0, health = 0] }: Place): Recipe =>
    memberRecipe('m0', [client, peer, health], `m0=http://127.0.0.1:${peer}`, {});
  return {
    ...ETCD,
    urlFrom: 'HOLDFAST_ETCD_URL',
    ports: 3,
    args: (place) => member(place).args(place),
    ready: (place) => member(place).ready(place),
    url: (place) => member(place).url(place),
  };
}

/** A cluster of our own, to kill, pause and cut. */
export async function startEtcdCluster(options: EtcdClusterOptions = {}): Promise<EtcdCluster> {
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
      return new Cluster(
        servers,
        triples.map(([client]) => client),
      );
    await Promise.all(servers.map((server) => server.stop()));
    if (attempt === 2) throw failed.reason;
  }
}

class Cluster implements EtcdCluster {
  readonly members: readonly EtcdMember[];
  readonly #clients = new Set<Etcd3>();

  constructor(servers: readonly Server[], ports: readonly number[]) {
    this.members = servers.map((server, n) => {
      const port = ports[n] ?? 0;
      return { name: `m${n}`, address: `127.0.0.1:${port}`, port, server };
    });
  }

  get addresses(): readonly string[] {
    return this.members.map((member) => member.address);
  }

  client(options: Partial<IOptions> = {}): Etcd3 {
    const client = new Etcd3({ hosts: this.addresses.map((address) => `http://${address}`), ...options });
    this.#clients.add(client);
    return client;
  }

  async leader(): Promise<EtcdMember> {
    for (let tries = 0; tries < 600; tries += 1) {
      const found = await Promise.all(this.members.map((member) => leads(member)));
      const leaders = this.members.filter((_, n) => found[n]);
      if (leaders.length === 1 && leaders[0] !== undefined) return leaders[0];
      await sleep(50);
    }
    throw new Error('the cluster has no leader');
  }

  async etcdctl(...args: string[]): Promise<string> {
    return await runEtcdctl(this.addresses, args);
  }

  async writable(): Promise<void> {
    for (let tries = 0; tries < 100; tries += 1) {
      try {
        await this.etcdctl('--command-timeout=5s', 'put', 'holdfast-harness/writable', String(tries));
        return;
      } catch {
        await sleep(100);
      }
    }
    throw new Error('the cluster takes no writes');
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.close();
    // Members that end in an orderly way hand over and wait for each other; there is nothing here to be kept.
    for (const { server } of this.members) server.kill('SIGKILL');
    await Promise.all(this.members.map((member) => member.server.stop()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Does this member say that it leads? False when it does not answer. */
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

/** Resolves to what it printed; rejects when it fails. */
export async function runEtcdctl(addresses: readonly string[], args: readonly string[]): Promise<string> {
  const child = startEtcdctl(addresses, args);
  let output = '';
  let problem = '';
  child.stdout.on('data', (data: Buffer) => {
    output += data.toString();
  });
  child.stderr.on('data', (data: Buffer) => {
    problem += data.toString();
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  if (code !== 0)
    throw new Error(`etcdctl ${args[0] ?? ''} failed: ${problem.trim() || `exit code ${code}`}`);
  return output;
}

export function startEtcdctl(addresses: readonly string[], args: readonly string[]) {
  return spawn(findProgram(ETCDCTL), [`--endpoints=${addresses.join(',')}`, ...args], {
    env: { ...process.env, ETCDCTL_API: '3' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}
