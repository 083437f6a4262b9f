import { Cluster } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { slotOf } from '../../src/stores/redis/cluster/slots.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { diagnose, expectProblems, findingOf } from '../support/doctor/findings.ts';
import { GOOD_REDIS, inSync, told } from '../support/doctor/redis.ts';
import { type RedisCluster, startRedisCluster } from '../support/servers/redis-cluster.ts';
import { eventually } from '../support/waiting/eventually.ts';

let cluster: RedisCluster;
/** A master that does not serve the lock that the checks read, and its replica. */
let master: Server;
let replica: Server;
/** Another master. */
let other: Server;

beforeAll(async () => {
  cluster = await startRedisCluster({ args: [...GOOD_REDIS, '--min-replicas-to-write', '1'] });
  const read = await cluster.masterOf(slotOf('holdfast:holdfast-connect'));
  const index = (read + 1) % 3;
  const spare = (read + 2) % 3;
  [master, other, replica] = [index, spare, index + 3].map((n) => cluster.servers[n]) as [
    Server,
    Server,
    Server,
  ];
}, 120_000);
afterAll(() => cluster.stop());

/** Makes a node a replica of another. */
async function replicate(node: Server, of: Server): Promise<void> {
  await told(node, 'CLUSTER', 'REPLICATE', String(await told(of, 'CLUSTER', 'MYID')));
}

describe('a Redis Cluster', () => {
  it('that is set up well has no problems, with a client of the user too', async () => {
    const findings = await expectProblems(() => diagnose(cluster.url), []);
    expect(findingOf(findings, 'redis-persistence').found).toMatch(/^all 3 servers: every write is logged/);
    const client = new Cluster([...cluster.addresses]);
    const locks = createLocks(redisStore(client));
    await expectProblems(() => locks.diagnose(), []);
    await locks.close();
    client.disconnect();
  });

  it('with one master that is set up badly is reported, with its address', async () => {
    await told(master, 'CONFIG', 'SET', 'appendfsync', 'everysec');
    const findings = await expectProblems(() => diagnose(cluster.url), ['redis-persistence: warn']);
    await told(master, 'CONFIG', 'SET', 'appendfsync', 'always');
    expect(findingOf(findings, 'redis-persistence').found).toBe(
      `127.0.0.1:${master.port}: every write is logged (appendfsync everysec)`,
    );
  });

  it('with a master without a replica is reported', async () => {
    await told(master, 'CONFIG', 'SET', 'min-replicas-to-write', '0');
    await replicate(replica, other);
    await expectProblems(() => diagnose(cluster.url), ['redis-cluster-nodes: warn']);
    await replicate(replica, master);
    await inSync(replica);
    await told(master, 'CONFIG', 'SET', 'min-replicas-to-write', '1');
    await expectProblems(() => diagnose(cluster.url), []);
  }, 120_000);

  it('with a slot that belongs to no node is reported', async () => {
    const ranges = (await told(master, 'CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
    const [slot] = ranges.find(([, , [, port]]) => port === master.port) ?? [];
    for (const server of cluster.servers) {
      await told(server, 'CONFIG', 'SET', 'cluster-require-full-coverage', 'no');
      await told(server, 'CLUSTER', 'DELSLOTS', `${slot}`);
    }
    const findings = await expectProblems(() => diagnose(cluster.url), ['redis-cluster-state: fail']);
    expect(findingOf(findings, 'redis-cluster-state').found).toBe('1 of 16384 slots belong to no node');
    await told(master, 'CLUSTER', 'ADDSLOTS', `${slot}`);
    for (const server of cluster.servers)
      await eventually('the node knows of the slot', async () =>
        String(await told(server, 'CLUSTER', 'INFO')).includes('cluster_slots_assigned:16384'),
      );
    await expectProblems(() => diagnose(cluster.url), []);
  }, 120_000);

  it('with a dead master is reported', async () => {
    master.kill('SIGKILL');
    await master.exited();
    const findings = await expectProblems(() => diagnose(cluster.url), ['redis-cluster-state: fail']);
    expect(findingOf(findings, 'redis-cluster-state').found).toContain(`127.0.0.1:${master.port}`);
  });
});
