import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startFaultProxy } from '../../src/torture/servers/fault-proxy.ts';
import { LIBRARIES, PREVIOUS_LIBRARIES } from '../support/clients/redis-clients.ts';
import { outputOf } from '../support/process/close-and-exit.ts';
import { type RedisCluster, startRedisCluster } from '../support/servers/redis-cluster.ts';
import { type RedisNodes, startRedisNodes } from '../support/servers/redis-nodes.ts';
import { type RedisSentinel, startRedisSentinel } from '../support/servers/redis-sentinel.ts';
import { startSilentServer } from '../support/servers/silent-server.ts';
import { eventually } from '../support/waiting/eventually.ts';

const scriptAt = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const IDLE = scriptAt('./support/idle-program.ts');
const USER_CLIENT = scriptAt('./support/user-client-program.ts');

let nodes: RedisNodes;
let cluster: RedisCluster;
let sentinel: RedisSentinel;
beforeAll(async () => {
  [nodes, cluster, sentinel] = await Promise.all([
    startRedisNodes(3),
    startRedisCluster(),
    startRedisSentinel(),
  ]);
});
afterAll(async () => {
  await Promise.all([nodes.stop(), cluster.stop(), sentinel.stop()]);
});

const URLS: Readonly<Record<string, () => string>> = {
  'redis://': () => nodes.urls[0] ?? '',
  'redlock://': () => `redlock://${nodes.servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
  'redis+cluster://': () => cluster.url,
  'redis+sentinel://': () => sentinel.url,
};

describe.concurrent('a program that has nothing left to do ends without close', () => {
  it.each(Object.entries(URLS))('on %s', async (_scheme, urlOf) => {
    expect(await outputOf(IDLE, [urlOf()])).toBe('done and ended');
  });

  // Sentinel needs ioredis.
  it.each(Object.entries(URLS).filter(([scheme]) => !scheme.includes('sentinel')))(
    'on %s, where only node-redis is installed',
    async (_scheme, urlOf) => {
      expect(await outputOf(IDLE, [urlOf(), 'ioredis'])).toBe('done and ended');
    },
  );

  it.each(['', 'ioredis'])('on redis+cluster:// that comes up later, without %j', async (without) => {
    const proxy = await startFaultProxy(Number(cluster.addresses[0]?.port));
    proxy.refuse();
    const program = outputOf(IDLE, [`redis+cluster://127.0.0.1:${proxy.port}`, without]);
    await eventually('it was refused', () => proxy.refused > 1);
    proxy.pass();
    expect(await program).toBe('done and ended');
    await proxy.stop();
  });

  it('on redis+cluster:// with a silent node, where only node-redis is installed', async () => {
    await using silent = await startSilentServer();
    const [node] = cluster.addresses;
    const url = `redis+cluster://${silent.host},${node?.host}:${node?.port}`;
    // The client begins with any node.
    const ends = [1, 2, 3].map(() => outputOf(IDLE, [url, 'ioredis']));
    expect(new Set(await Promise.all(ends))).toEqual(new Set(['done and ended']));
  });

  it.each([...LIBRARIES, ...PREVIOUS_LIBRARIES])(
    'through its own client of %s, which it has closed',
    async (library) => {
      expect(await outputOf(USER_CLIENT, [nodes.urls[0] ?? '', library])).toBe('done and ended');
    },
  );
});
