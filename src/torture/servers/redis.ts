import { exchange } from './ports.ts';
import { type Recipe, type Server, startOwnServer, startServer } from './server.ts';

export interface RedisOptions {
  /** More settings, as on the command line: `['--appendonly', 'yes']`. */
  readonly args?: readonly string[];
  /** A member of a Cluster: it talks to the others on a second port. */
  readonly cluster?: boolean;
  readonly env?: NodeJS.ProcessEnv;
}

/** Memory only, unless the settings say otherwise. */
export function redisRecipe(options: RedisOptions = {}): Recipe {
  return {
    title: 'Redis 6.2 or newer',
    binary: 'redis-server',
    packages: ['redis-server'],
    urlFrom: 'HOLDFAST_REDIS_URL',
    ports: options.cluster === true ? 2 : 1,
    args: ({ port, ports }) => [
      ...[
        '--port',
        `${port}`,
        '--bind',
        '127.0.0.1',
        '--save',
        '',
        '--appendonly',
        'no',
        '--loglevel',
        'warning',
      ],
      ...(options.cluster === true ? ['--cluster-enabled', 'yes', '--cluster-port', `${ports[1]}`] : []),
      ...(options.args ?? []),
    ],
    env: () => options.env ?? {},
    ready: async ({ port }) => {
      const answer = await exchange(port, 'PING\r\n');
      if (!answer.startsWith('+PONG')) throw new Error(answer.trim());
    },
    url: ({ port }) => `redis://127.0.0.1:${port}`,
  };
}

/** A Redis to share: the one that HOLDFAST_REDIS_URL names, else our own. */
export function startSharedRedis(): Promise<Server> {
  return startServer(redisRecipe());
}

/** A Redis of our own, to kill, pause and reconfigure. */
export function startRedis(options: RedisOptions = {}): Promise<Server> {
  return startOwnServer(redisRecipe(options));
}
