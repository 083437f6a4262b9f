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
  stop(): Promise<void>;
}

const DOWN_MS = 500;

function sentinelRecipe(masterPort: number): Recipe {
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
  const sentinels = await Promise.all([1, 2, 3].map(() => startOwnServer(sentinelRecipe(master.port))));
  const topology = new Sentinel([master, ...replicas], sentinels);
  await topology.settled();
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

  /** Resolves when the replicas have the data and every sentinel knows of everybody else: only then can they fail over. */
  async settled(): Promise<void> {
    await Promise.all([...this.servers.slice(1).map(inSync), ...this.sentinels.map(knowsAll)]);
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
    for (let tries = 0; tries < 400; tries += 1) {
      if (await isSo(client)) return;
      await sleep(50);
    }
    throw new Error('the servers did not find each other');
  } finally {
    client.disconnect();
  }
}
