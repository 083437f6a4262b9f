import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../clock.ts';
import { askServer } from '../../stores/zookeeper/diagnose.ts';
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts';
import { findProgram, install } from './find.ts';
import { freePorts } from './ports.ts';
import { type Recipe, type Server, type ServerInstance, startOwnServer } from './server.ts';

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
  /** How many members; 3 unless set. */
  readonly members?: number;
  /** Milliseconds; 250 unless set. Sessions last from two ticks on. */
  readonly tickMs?: number;
  /** The longest session that a client is given; twenty ticks unless set. */
  readonly maxSessionMs?: number;
  /**
   * After how many ticks a member notices that it is disconnected from its leader; 8 unless set.
   */
  readonly syncLimit?: number;
  /**
   * Members wait until what they write is on the disk, as they do by default. Not unless
   * set here: the data of a test is not needed after it.
   */
  readonly isDurable?: boolean;
  /**
   * Members talk to each other through proxies, so that they can be disconnected from each other.
   */
  readonly isDivisible?: boolean;
}

export interface Member {
  /** Where clients connect: `127.0.0.1:port`. */
  readonly address: string;
  readonly port: number;
  readonly server: Server;
  /** The traffic of this member to others, when the ensemble is divisible. */
  readonly links: readonly FaultProxy[];
}

/** The path of the Java classes; installs the package when that is possible here. */
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

/** A standalone server. */
export function zookeeperRecipe(): Recipe {
  return memberRecipe(1, null, '', {});
}

/** `port`: where clients connect; `null`: chosen by the harness. */
function memberRecipe(id: number, port: number | null, servers: string, options: EnsembleOptions): Recipe {
  const portOf = (instance: ServerInstance): number => port ?? instance.port;
  return {
    ...JAVA,
    title: 'ZooKeeper 3.8',
    urlFrom: 'HOLDFAST_ZOOKEEPER_URL',
    prepare: (instance) => {
      const data = join(instance.dir, 'data');
      mkdirSync(data);
      writeFileSync(join(data, 'myid'), String(id));
      const lines = [
        `tickTime=${options.tickMs ?? 250}`,
        // A leader without followers resigns after this many ticks, and another election begins:
        // with more ticks, a failed election takes long.
        'initLimit=20',
        `syncLimit=${options.syncLimit ?? 8}`,
        `dataDir=${data}`,
        `clientPort=${portOf(instance)}`,
        'clientPortAddress=127.0.0.1',
        'admin.enableServer=false',
        '4lw.commands.whitelist=*',
        'maxClientCnxns=0',
        'quorumListenOnAllIPs=false',
        ...(options.maxSessionMs === undefined ? [] : [`maxSessionTimeout=${options.maxSessionMs}`]),
        servers,
      ];
      writeFileSync(join(instance.dir, 'zoo.cfg'), lines.join('\n'));
    },
    // Three members start at once on few cores: little heap, little compilation.
    args: ({ dir }) => [
      ...['-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xshare:auto'],
      // Without these, an election with a stopped member can take twenty seconds.
      ...['-Dzookeeper.cnxTimeout=500', '-Dzookeeper.fastleader.maxNotificationInterval=400'],
      `-Dzookeeper.forceSync=${options.isDurable === true ? 'yes' : 'no'}`,
      ...['-cp', classPath(), 'org.apache.zookeeper.server.quorum.QuorumPeerMain', join(dir, 'zoo.cfg')],
    ],
    ready: async (instance) => {
      if ((await modeOf(portOf(instance))) === null) throw new Error('not serving yet');
    },
    url: (instance) => `zookeeper://127.0.0.1:${portOf(instance)}`,
  };
}

/** `leader`, `follower` or `standalone`; `null` when it does not serve. */
export async function modeOf(port: number): Promise<string | null> {
  return (await askServer({ host: '127.0.0.1', port }, systemClock)).mode;
}

/** The first member with one of these modes; waits for one. */
export async function memberWithMode(members: readonly Member[], wanted: readonly string[]): Promise<Member> {
  for (const until = Date.now() + 30_000; Date.now() < until; await sleep(50)) {
    const modes = await Promise.all(members.map(({ port }) => modeOf(port)));
    const found = members[modes.findIndex((mode) => mode !== null && wanted.includes(mode))];
    if (found !== undefined) return found;
  }
  throw new Error(`no member says that it is a ${wanted.join(' or a ')}`);
}

/** The members of an ensemble of our own, to kill, pause and cut. */
export async function startZookeeperMembers(options: EnsembleOptions = {}): Promise<Member[]> {
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
    if (servers.length === count)
      return servers.map((server, n) => {
        const port = ports[n]?.client ?? 0;
        return { address: `127.0.0.1:${port}`, port, server, links: links[n] ?? [] };
      });
    await Promise.all([...servers, ...links.flat()].map((each) => each.stop()));
    const failed = started.find((each) => each.status === 'rejected');
    if (attempt === 2) throw failed?.reason;
  }
}

/**
 * One proxy for the quorum port of each other member. Elections are not proxied: members that see
 * each other elect no second leader.
 */
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
