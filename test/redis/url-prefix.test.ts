import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openLocks } from '../../src/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import { MASTER, sentinelRecipe } from '../../src/torture/servers/redis-sentinel.ts';
import { type Server, startOwnServer } from '../../src/torture/servers/server.ts';
import { eventually } from '../support/waiting/eventually.ts';

interface Topology {
  readonly url: string;
  readonly admin: Redis;
}

const servers: Server[] = [];
const admins: Redis[] = [];
const topologies: Record<string, Topology> = {};

/**
 * One server shows where the keys are: alone, behind a Sentinel, and as the only node of a Redlock. The other
 * one is a Cluster of one node.
 */
beforeAll(async () => {
  const alone = await startRedis();
  // A Cluster of one node does not know its own address.
  const cluster = await startRedis({ cluster: true, args: ['--cluster-announce-ip', '127.0.0.1'] });
  const sentinel = await startOwnServer(sentinelRecipe(alone.port));
  servers.push(alone, cluster, sentinel);
  const admin = new Redis(alone.url);
  const clusterAdmin = new Redis(cluster.url);
  admins.push(admin, clusterAdmin);
  await clusterAdmin.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  const write = (): Promise<string> => clusterAdmin.set('is it whole', 'yes').catch(String);
  await eventually('the Cluster takes writes', async () => (await write()) === 'OK');
  topologies['redis://'] = { url: `redis://127.0.0.1:${alone.port}/0`, admin };
  topologies['redlock://'] = { url: `redlock://127.0.0.1:${alone.port}`, admin };
  topologies['redis+sentinel://'] = { url: `redis+sentinel://127.0.0.1:${sentinel.port}/${MASTER}`, admin };
  topologies['redis+cluster://'] = { url: `redis+cluster://127.0.0.1:${cluster.port}`, admin: clusterAdmin };
});

afterAll(async () => {
  for (const admin of admins) admin.disconnect();
  for (const server of servers) await server.stop();
});

describe.each(['redis://', 'redlock://', 'redis+sentinel://', 'redis+cluster://'])('%s', (scheme) => {
  it.each([
    ['', 'holdfast:'],
    ['?', 'holdfast:'],
    ['?prefix=billing:', 'billing:'],
    ['?prefix=a%3Fb%26%20', 'a?b& '],
    ['?prefix=', ''],
  ])('with %o, keys begin with "%s"', async (query, prefix) => {
    const { url, admin } = topologies[scheme] as Topology;
    const locks = await openLocks(url + query);
    const name = `seen ${scheme} ${query}`;
    const hold = await locks.mutex(name).acquire();
    expect(await admin.exists(prefix + name)).toBe(1);
    expect(await hold.release()).toBe(true);
    await locks.close();
  });
});

it('family= selects the IPv4 or IPv6 addresses of a host name', async () => {
  const port = servers[0]?.port;
  const four = await openLocks(`redis://localhost:${port}?family=4`);
  await four.withLock('family', () => {});
  await four.close();
  // The server listens on 127.0.0.1 only.
  const six = openLocks(`redis://localhost:${port}?family=6`);
  await expect(six).rejects.toMatchObject({ code: 'STORE' });
});
