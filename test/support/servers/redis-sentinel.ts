import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { exchange } from '../../../src/torture/servers/ports.ts';
import { type RedisOptions, startRedis } from '../../../src/torture/servers/redis.ts';
import { MASTER, sentinelRecipe } from '../../../src/torture/servers/redis-sentinel.ts';
import { type Server, startOwnServer } from '../../../src/torture/servers/server.ts';

/** One master, its replicas and the sentinels that watch them. */
export interface RedisSentinel extends AsyncDisposable {
  /** The first of them begins as the master. */
  readonly servers: readonly Server[];
  readonly sentinels: readonly Server[];
  /** The addresses of the sentinels, for a client. */
  readonly addresses: ReadonlyArray<{ readonly host: string; readonly port: number }>;
  /** `redis+sentinel://a,b,c/master-name` */
  readonly url: string;
  /** The port of the master, by a majority of the sentinels. */
  masterPort(): Promise<number>;
  /**
   * After how long a silent master is replaced. Long by default, so that a busy machine causes no
   * failover: a test that wants one sets it.
   */
  setDownAfter(ms: number): Promise<void>;
  stop(): Promise<void>;
}

/** How long the servers may take to find each other. */
const SETTLE_MS = 60_000;

/** One master, two replicas and three sentinels of our own, ready to fail over. */
export async function startRedisSentinel(options: RedisOptions = {}): Promise<RedisSentinel> {
  const args = ['--repl-diskless-sync-delay', '0', ...(options.args ?? [])];
  const master = await startRedis({ ...options, args });
  const replicaArgs = ['--replicaof', '127.0.0.1', `${master.port}`, ...args];
  const replicas = await Promise.all([1, 2].map(() => startRedis({ ...options, args: replicaArgs })));
  // A sentinel asks the master for its replicas at its start, and then every ten seconds.
  await Promise.all(replicas.map(inSync));
  const sentinels = await Promise.all([1, 2, 3].map(() => startOwnServer(sentinelRecipe(master.port))));
  const topology = new Sentinel([master, ...replicas], sentinels);
  // Sentinels announce themselves every two seconds, and check a server every ten. Redis 6 has no
  // setting for that, and takes longer.
  await topology.tell('SENTINEL DEBUG INFO-PERIOD 1000 PUBLISH-PERIOD 200');
  await topology.settled();
  await topology.tell('SENTINEL DEBUG PUBLISH-PERIOD 2000');
  return topology;
}

class Sentinel implements RedisSentinel {
  readonly servers: readonly Server[];
  readonly sentinels: readonly Server[];

  constructor(servers: readonly Server[], sentinels: readonly Server[]) {
    this.servers = servers;
    this.sentinels = sentinels;
  }

  get addresses(): ReadonlyArray<{ readonly host: string; readonly port: number }> {
    return this.sentinels.map(({ port }) => ({ host: '127.0.0.1', port }));
  }

  get url(): string {
    return `redis+sentinel://${this.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/${MASTER}`;
  }

  async masterPort(): Promise<number> {
    const ports = await Promise.all(
      this.sentinels.map(async ({ port }) => {
        const reply = await exchange(port, `SENTINEL GET-MASTER-ADDR-BY-NAME ${MASTER}\r\n`).catch(() => '');
        return Number(/\$\d+\r\n(\d+)\r\n$/.exec(reply)?.[1] ?? 0);
      }),
    );
    return ports.find((port) => port !== 0 && ports.filter((other) => other === port).length >= 2) ?? 0;
  }

  /** Sends a command to all sentinels, and resolves to their answers. */
  async tell(command: string): Promise<string[]> {
    return await Promise.all(this.sentinels.map(({ port }) => exchange(port, `${command}\r\n`, 10_000)));
  }

  async setDownAfter(ms: number): Promise<void> {
    const replies = await this.tell(`SENTINEL SET ${MASTER} down-after-milliseconds ${ms}`);
    if (!replies.every((reply) => reply.startsWith('+OK'))) throw new Error(replies.join(''));
  }

  /** Resolves when every sentinel knows all others: only then can they fail over. */
  async settled(): Promise<void> {
    await Promise.all(this.sentinels.map(knowsAll));
  }

  async stop(): Promise<void> {
    await Promise.all([...this.sentinels, ...this.servers].map((server) => server.stop()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

async function inSync({ url }: Server): Promise<void> {
  await until(url, async (client) => (await client.info('replication')).includes('master_link_status:up'));
}

async function knowsAll({ url }: Server): Promise<void> {
  await until(url, async (client) => {
    const flat = (await client.call('SENTINEL', 'MASTER', MASTER)) as string[];
    const of = (field: string): number => Number(flat[flat.indexOf(field) + 1]);
    return of('num-slaves') === 2 && of('num-other-sentinels') === 2;
  });
}

async function until(url: string, isSo: (client: Redis) => Promise<boolean>): Promise<void> {
  const client = new Redis(url, { maxRetriesPerRequest: null });
  client.on('error', () => {});
  try {
    for (const giveUpAt = performance.now() + SETTLE_MS; performance.now() < giveUpAt; ) {
      if (await isSo(client)) return;
      await sleep(50);
    }
    throw new Error('the servers did not find each other');
  } finally {
    client.disconnect();
  }
}
