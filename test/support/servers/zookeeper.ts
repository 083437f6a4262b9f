import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import zookeeper from 'node-zookeeper-client';
import type { RawClient } from '../../../src/stores/zookeeper/client.ts';
import { type FaultProxy, startFaultProxy } from '../fault-proxy.ts';
import { findProgram, install } from './find.ts';
import { freePorts } from './ports.ts';
import { type Place, type Recipe, type Server, startOwnServer } from './server.ts';

const JAVA = { title: 'Java 11 or newer', binary: 'java', packages: ['default-jre-headless'] } as const;
const PACKAGE = 'libzookeeper-java';
const JARS = '/usr/share/java';
const NEEDED = [
  'zookeeper',
  'zookeeper-jute',
  'slf4j-api',
  'slf4j-nop',
  'netty-all',
  'commons-cli',
  'metrics-core',
  'snappy-java',
];

export interface EnsembleOptions {
  /** How many members; 3 unless told. */
  readonly members?: number;
  /** Milliseconds; 250 unless told. Sessions last from two ticks on. */
  readonly tickMs?: number;
  /** The longest session that a client is given; twenty ticks unless told. */
  readonly maxSessionMs?: number;
  /** After how many ticks a member notices that it is cut off from its leader; 8 unless told. */
  readonly syncLimit?: number;
  /** Members wait until what they write is on the disk, as they do unless told otherwise. Not unless told here: what a test writes is gone with it. */
  readonly isDurable?: boolean;
  /** Members talk to each other through proxies, so that they can be cut off from one another. */
  readonly isDivisible?: boolean;
}

export interface Member {
  /** Where clients connect: `127.0.0.1:port`. */
  readonly address: string;
  readonly port: number;
  readonly server: Server;
  /** What this member sends to others, when the ensemble is divisible. */
  readonly links: readonly FaultProxy[];
}

export interface ClientOptions {
  readonly address?: string;
  readonly sessionMs?: number;
  /** How often the client repeats by itself what it got no answer to. */
  readonly retries?: number;
  /** A session to go on with. */
  readonly session?: { readonly id: Buffer; readonly password: Buffer };
}

export interface Ensemble extends AsyncDisposable {
  readonly members: readonly Member[];
  /** As a client wants it: `a,b,c`. */
  readonly address: string;
  readonly url: string;
  /** A client of the ensemble, of one member or of a proxy; connected, and closed with the ensemble. */
  client(options?: ClientOptions): RawClient;
  /** The member that leads now; waits for one. */
  leader(): Promise<Member>;
  /** A member that follows now. */
  follower(): Promise<Member>;
  /** Resolves when members answer that they serve. */
  serving(count?: number): Promise<void>;
  stop(): Promise<void>;
}

/** Where the library's classes are; installs the package when that is possible here. */
function classPath(): string {
  const jars = NEEDED.map((name) => join(JARS, `${name}.jar`));
  const isMissing = (): boolean => jars.some((jar) => !existsSync(jar));
  const failure = isMissing() ? install([PACKAGE]) : undefined;
  if (isMissing())
    throw new Error(
      `ZooKeeper 3.8 is needed. ${failure ?? ''} Install it (Debian, Ubuntu: apt-get install ${PACKAGE}).`,
    );
  return jars.join(':');
}

interface Ports {
  readonly client: number;
  readonly quorum: number;
  readonly election: number;
}

/** A server by itself. */
export function zookeeperRecipe(): Recipe {
  return memberRecipe(1, null, '', {});
}

/** `port`: where clients connect; `null`: wherever the harness says. */
function memberRecipe(id: number, port: number | null, servers: string, options: EnsembleOptions): Recipe {
  const portOf = (place: Place): number => port ?? place.port;
  return {
    ...JAVA,
    title: 'ZooKeeper 3.8',
    urlFrom: 'HOLDFAST_ZOOKEEPER_URL',
    prepare: (place) => {
      const data = join(place.dir, 'data');
      mkdirSync(data);
      writeFileSync(join(data, 'myid'), String(id));
      const lines = [
        `tickTime=${options.tickMs ?? 250}`,
        // A leader that nobody follows gives up after so many ticks, and another election begins: with more, an unlucky one lasts for long.
        'initLimit=20',
        `syncLimit=${options.syncLimit ?? 8}`,
        `dataDir=${data}`,
        `clientPort=${portOf(place)}`,
        'clientPortAddress=127.0.0.1',
        'admin.enableServer=false',
        '4lw.commands.whitelist=*',
        'maxClientCnxns=0',
        'quorumListenOnAllIPs=false',
        ...(options.maxSessionMs === undefined ? [] : [`maxSessionTimeout=${options.maxSessionMs}`]),
        servers,
      ];
      writeFileSync(join(place.dir, 'zoo.cfg'), lines.join('\n'));
    },
    // Three of them start at once on two cores: little heap, little compilation.
    args: ({ dir }) => [
      ...['-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xshare:auto'],
      // Without these, an election that a sleeping member takes part in can last for twenty seconds.
      ...['-Dzookeeper.cnxTimeout=500', '-Dzookeeper.fastleader.maxNotificationInterval=400'],
      `-Dzookeeper.forceSync=${options.isDurable === true ? 'yes' : 'no'}`,
      ...['-cp', classPath(), 'org.apache.zookeeper.server.quorum.QuorumPeerMain', join(dir, 'zoo.cfg')],
    ],
    ready: async (place) => {
      if ((await modeOf(portOf(place))) === null) throw new Error('not serving yet');
    },
    url: (place) => `zookeeper://127.0.0.1:${portOf(place)}`,
  };
}

/** `leader`, `follower` or `standalone`; `null` when it does not serve. */
async function modeOf(port: number): Promise<string | null> {
  return /Mode: (\w+)/.exec(await askWord(port, 'srvr'))?.[1] ?? null;
}

/** The answer to one of the words of four letters, which may come in pieces; empty when there is none. */
async function askWord(port: number, word: string): Promise<string> {
  return await new Promise((resolve) => {
    let answer = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(word));
    socket.on('data', (data) => {
      answer += data.toString();
    });
    socket.setTimeout(1_000, () => socket.destroy());
    socket.on('error', () => socket.destroy());
    socket.on('close', () => resolve(answer));
  });
}

async function eventually<T>(look: () => Promise<T | null>, problem: string): Promise<T> {
  for (const until = Date.now() + 30_000; Date.now() < until; await sleep(50)) {
    const found = await look();
    if (found !== null) return found;
  }
  throw new Error(problem);
}

/** An ensemble of our own, to kill, pause and cut. */
export async function startEnsemble(options: EnsembleOptions = {}): Promise<Ensemble> {
  const count = options.members ?? 3;
  findProgram(JAVA);
  classPath();
  for (let attempt = 1; ; attempt += 1) {
    const free = await freePorts(count * 3);
    const ports = Array.from({ length: count }, (_, n): Ports => {
      const [client = 0, quorum = 0, election = 0] = free.slice(n * 3, n * 3 + 3);
      return { client, quorum, election };
    });
    const links = await Promise.all(ports.map((_, n) => (options.isDivisible ? linksOf(n, ports) : [])));
    // Each serves only when a majority does, so they start together.
    const started = await Promise.allSettled(
      ports.map((own, n) => {
        const servers = count === 1 ? '' : serverLines(n, ports, links[n] ?? []);
        return startOwnServer(memberRecipe(n + 1, own.client, servers, options));
      }),
    );
    const servers = started.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    if (servers.length === count) return new OwnEnsemble(servers, ports, links);
    await Promise.all([...servers, ...links.flat()].map((each) => each.stop()));
    const failed = started.find((each) => each.status === 'rejected');
    if (attempt === 2) throw failed?.reason;
  }
}

/** One proxy for the quorum port of each other member. Elections are left alone: members that see each other elect no second leader. */
async function linksOf(own: number, ports: readonly Ports[]): Promise<FaultProxy[]> {
  return await Promise.all(ports.map(({ quorum }, n) => startFaultProxy(n === own ? 1 : quorum)));
}

function serverLines(own: number, ports: readonly Ports[], links: readonly FaultProxy[]): string {
  return ports
    .map(({ quorum, election }, n) => {
      const port = n === own ? quorum : (links[n]?.port ?? quorum);
      return `server.${n + 1}=127.0.0.1:${port}:${election}`;
    })
    .join('\n');
}

class OwnEnsemble implements Ensemble {
  readonly members: readonly Member[];
  readonly #clients = new Set<RawClient>();

  constructor(
    servers: readonly Server[],
    ports: readonly Ports[],
    links: readonly (readonly FaultProxy[])[],
  ) {
    this.members = servers.map((server, n) => {
      const port = ports[n]?.client ?? 0;
      return { address: `127.0.0.1:${port}`, port, server, links: links[n] ?? [] };
    });
  }

  get address(): string {
    return this.members.map((member) => member.address).join(',');
  }

  get url(): string {
    return `zookeeper://${this.address}`;
  }

  client({ address, sessionMs = 4_000, retries = 0, session }: ClientOptions = {}): RawClient {
    const client = zookeeper.createClient(address ?? this.address, {
      sessionTimeout: sessionMs,
      spinDelay: 100,
      retries,
      ...(session === undefined ? {} : { sessionId: session.id, sessionPassword: session.password }),
    }) as unknown as RawClient;
    client.connect();
    this.#clients.add(client);
    return client;
  }

  async leader(): Promise<Member> {
    return await this.#withMode(['leader', 'standalone']);
  }

  async follower(): Promise<Member> {
    return await this.#withMode(['follower']);
  }

  async serving(count = this.members.length): Promise<void> {
    const look = async (): Promise<true | null> =>
      (await this.#modes()).filter((mode) => mode !== null).length >= count ? true : null;
    await eventually(look, `fewer than ${count} members serve`);
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.close();
    for (const { server } of this.members) server.kill('SIGKILL');
    await Promise.all(
      this.members.flatMap(({ server, links }) => [server, ...links]).map((each) => each.stop()),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #modes(): Promise<(string | null)[]> {
    return await Promise.all(this.members.map(({ port }) => modeOf(port)));
  }

  async #withMode(wanted: readonly string[]): Promise<Member> {
    const look = async (): Promise<Member | null> => {
      const at = (await this.#modes()).findIndex((mode) => mode !== null && wanted.includes(mode));
      return this.members[at] ?? null;
    };
    return await eventually(look, `no member says that it is a ${wanted.join(' or a ')}`);
  }
}
