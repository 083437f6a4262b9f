import { type RedisOptions, startRedis } from '../../../src/torture/servers/redis.ts';
import type { Server } from '../../../src/torture/servers/server.ts';

/** Independent Redis servers. */
export interface RedisNodes extends AsyncDisposable {
  readonly servers: readonly Server[];
  readonly urls: readonly string[];
  stop(): Promise<void>;
}

/** `options` gives the options of each node, for example a shifted clock for one of them. */
export async function startRedisNodes(
  count = 5,
  options: (index: number) => RedisOptions = () => ({}),
): Promise<RedisNodes> {
  const servers = await Promise.all(Array.from({ length: count }, (_, index) => startRedis(options(index))));
  return new Nodes(servers);
}

class Nodes implements RedisNodes {
  readonly servers: readonly Server[];

  constructor(servers: readonly Server[]) {
    this.servers = servers;
  }

  get urls(): readonly string[] {
    return this.servers.map((server) => server.url);
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
