import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { exchange } from './ports.ts';
import { type RedisOptions, startRedis } from './redis.ts';
import { type Recipe, type Server, startOwnServer } from './server.ts';

/** What the sentinels call the one master that they watch. */
export const MASTER = 'holdfast';

/** One master, its replicas and the sentinels that watch them. */
export interface RedisSentinel extends AsyncDisposable {
  /** The first of them begins as the master. */
  readonly servers: readonly Server[];
  readonly sentinels: readonly Server[];
  /** Where the sentinels are, for a client. */
  readonly addresses: ReadonlyArray<{ readonly host: string; readonly port: number }>;
  /** `redis+sentinel://a,b,c/master-name` */
  readonly url: string;
  /** The port of the master by the word of most sentinels. */
  masterPort(): Promise<number>;
  /** After how long a silent master is replaced. So long at first that it is not because the machine is busy: a test that wants it says so. */
  setDownAfter(ms: number): Promise<void>;
  stop(): Promise<void>;
}

const DOWN_MS = 60_000;
/** How long they may take to find each other. */
const SETTLE_MS = 60_000;

/** Of a sentinel that watches the master on this port. */
export function sentinelRecipe(masterPort: number): Recipe {
  const config = (dir: string): string => join(dir, 'sentinel.conf');
  return {
    title: 'Redis Sentinel',
    binary: 'redis-server',
    packages: ['redis-server'],
    urlFrom: 'HOLDFAST_SENTINEL_URL',
    prepare({ dir, port }) {
      const lines = [
        `port ${port}`,
        'bind 127.0.0.1',
        `sentinel monitor ${MASTER} 127.0.0.1 ${masterPort} 2`,
        `sentinel down-after-milliseconds ${MASTER} ${DOWN_MS}`,
        `sentinel failover-timeout ${MASTER} 3000`,
      ];
      writeFileSync(config(dir), `${lines.join('\n')}\n`);
    },
    args: ({ dir }) => [config(dir), '--sentinel'],
    ready: async ({ port }) => {
      const answer = await exchange(port, 'PING\r\n');
      if (!answer.startsWith('+PONG')) throw new Error(answer.trim());
    },
    url: ({ port }) => `redis://127.0.0.1:${port}`,
  };
}

/** One master, two replicas and three sentinels of our own, ready to fail over. */
export async function startRedisSentinel(options: RedisOptions = {}): Promise<RedisSentinel> {
  const args = ['--repl-diskless-sync-delay', '0', ...(options.args ?? [])];
  const master = await startRedis({ ...options, args });
  const replicaArgs = ['--replicaof', '127.0.0.1', `${master.port}`, ...args];
  const replicas = await Promise.all([1, 2].map(() => startRedis({ ...options, args: replicaArgs })));
  // A sentinel asks the master for its replicas when it comes, and then not before ten seconds later.
  await Promise.all(replicas.map(inSync));
  const sentinels = await Promise.all([1, 2, 3].map(() => startOwnServer(sentinelRecipe(master.port))));
  const topology = new Sentinel([master, ...replicas], sentinels);
  // They greet each other every two seconds, and look at a server every ten. Redis 6 has no setting for that, and takes longer.
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

  /** Tells all sentinels, and resolves to what each of them says to it. */
  async tell(command: string): Promise<string[]> {
    return await Promise.all(this.sentinels.map(({ port }) => exchange(port, `${command}\r\n`, 10_000)));
  }

  async setDownAfter(ms: number): Promise<void> {
    const replies = await this.tell(`SENTINEL SET ${MASTER} down-after-milliseconds ${ms}`);
    if (!replies.every((reply) => reply.startsWith('+OK'))) throw new Error(replies.join(''));
  }

  /** Resolves when every sentinel knows of everybody else: only then can they fail over. */
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
