import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createLocks, type Finding, type LocksOptions } from '../../src/index.ts';
import { redlockStore } from '../../src/stores/redis/index.ts';
import { makeClockShim } from '../../src/torture/servers/clock-shim.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import { diagnose, expectProblems, findingOf } from '../support/doctor/findings.ts';
import { GOOD_REDIS, told } from '../support/doctor/redis.ts';
import { type RedisNodes, startRedisNodes } from '../support/servers/redis-nodes.ts';
import { eventually } from '../support/waiting/eventually.ts';

/** Each node has an address of its own on the loopback network. */
const ALL_ADDRESSES = [...GOOD_REDIS, '--bind', '0.0.0.0', '--protected-mode', 'no'];

let nodes: RedisNodes;
beforeAll(async () => {
  nodes = await startRedisNodes(5, () => ({ args: ALL_ADDRESSES }));
});
afterAll(() => nodes.stop());

function hostsOf(ports: readonly number[]): string[] {
  return ports.map((port, n) => `127.0.0.${n + 1}:${port}`);
}

function portOf(index: number): number {
  return nodes.servers[index]?.port ?? 0;
}

function diagnosed(hosts: readonly string[], options: LocksOptions = {}): Promise<Finding[]> {
  return diagnose(`redlock://${hosts.join(',')}`, options);
}

describe.concurrent('a Redlock', () => {
  it('that is set up well has no problems', async () => {
    const findings = await expectProblems(() => diagnosed(hostsOf([0, 1, 2, 3, 4].map(portOf))), []);
    expect(findingOf(findings, 'redlock-nodes').found).toBe('5 nodes; locks work while 2 of them are down');
  });

  it.each([
    [2, 'No node may fail'],
    [4, 'One node fewer would tolerate as many failures'],
  ])('of %d nodes is reported', async (count, means) => {
    const findings = await expectProblems(
      () => diagnosed(hostsOf([0, 1, 2, 3].slice(0, count).map(portOf))),
      ['redlock-nodes: warn'],
    );
    expect(findingOf(findings, 'redlock-nodes').means).toContain(means);
  });

  it('with two nodes on one host is reported', async () => {
    const [first = '', second = ''] = hostsOf([0, 1].map(portOf));
    const findings = await expectProblems(
      () => diagnosed([first, second, `127.0.0.1:${portOf(2)}`]),
      ['redlock-hosts: warn'],
    );
    expect(findingOf(findings, 'redlock-hosts').found).toBe('several nodes are on 127.0.0.1');
  });

  it('whose clients do not tell where their servers are leaves their independence unknown', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-sockets-'));
    const paths = [0, 1, 2].map((n) => join(folder, `${n}.sock`));
    const start = (path: string) => startRedis({ args: [...GOOD_REDIS, '--unixsocket', path] });
    const servers = await Promise.all(paths.map(start));
    const clients = paths.map((path) => createClient({ socket: { path, tls: false } }));
    try {
      await Promise.all(clients.map((client) => client.on('error', () => {}).connect()));
      const locks = createLocks(redlockStore(clients));
      const findings = await expectProblems(() => locks.diagnose(), ['redlock-hosts: unknown']);
      expect(findingOf(findings, 'redlock-hosts').found).toMatch(/^the clients of 3 nodes do not tell/);
      await locks.close();
    } finally {
      for (const client of clients) client.destroy();
      await Promise.all(servers.map((server) => server.stop()));
      rmSync(folder, { recursive: true });
    }
  });

  it('with one server twice is reported', async () => {
    await expectProblems(
      () => diagnosed(hostsOf([portOf(0), portOf(1), portOf(0)])),
      ['redlock-same-server: fail'],
    );
    const clients = hostsOf([portOf(0), portOf(1), portOf(1)]).map((host) => new Redis(`redis://${host}`));
    const locks = createLocks(redlockStore(clients));
    await expectProblems(() => locks.diagnose(), ['redlock-same-server: fail']);
    await locks.close();
    for (const client of clients) client.disconnect();
  });

  it('with nodes that do not answer is reported, and rejects when none does', async () => {
    await using dead = await startRedis();
    dead.kill('SIGKILL');
    await dead.exited();
    const [first = '', second = '', , fourth = ''] = hostsOf([0, 1, 2, 3].map(portOf));
    const away = `127.0.0.3:${dead.port}`;
    const minority = await expectProblems(
      () => diagnosed([first, second, away]),
      ['redlock-reachable: warn'],
    );
    expect(findingOf(minority, 'redlock-reachable').found).toBe(`no answer from ${away}`);
    await expectProblems(
      () => diagnosed([fourth, away, `127.0.0.5:${dead.port}`]),
      ['redlock-reachable: fail'],
    );
    await expect(diagnosed([away], { commandMs: 1_500 })).rejects.toMatchObject({ code: 'QUORUM' });
  });

  it('with a node that may have lost its data within the TTL is reported', async () => {
    await using forgetful = await startRedis({ args: [...ALL_ADDRESSES, '--appendonly', 'no'] });
    const hosts = hostsOf([portOf(0), portOf(1), forgetful.port]);
    const findings = await expectProblems(
      () => diagnosed(hosts, { ttlMs: 3_600_000 }),
      ['redis-persistence: warn', 'redlock-restart: warn'],
    );
    expect(findingOf(findings, 'redlock-restart').found).toMatch(`127.0.0.3:${forgetful.port}: restarted`);
    await eventually('the TTL is over', async () =>
      /uptime_in_seconds:(?:[2-9]|\d\d)/.test(String(await told(forgetful, 'INFO', 'server'))),
    );
    await expectProblems(() => diagnosed(hosts, { ttlMs: 1_000 }), ['redis-persistence: warn']);
  });

  it('with a node that evicts keys is reported', async () => {
    const args = [...ALL_ADDRESSES, '--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'];
    await using evicting = await startRedis({ args });
    const findings = await expectProblems(
      () => diagnosed(hostsOf([portOf(0), portOf(1), evicting.port])),
      ['redis-eviction-policy: fail'],
    );
    expect(findingOf(findings, 'redis-eviction-policy').found).toContain(`127.0.0.3:${evicting.port}`);
  });

  it('with a node whose clock is wrong is reported', async () => {
    const shim = makeClockShim();
    onTestFinished(() => shim.remove());
    shim.set(3_600);
    await using early = await startRedis({ args: ALL_ADDRESSES, env: shim.env });
    const hosts = hostsOf([portOf(0), portOf(1), early.port]);
    const findings = await expectProblems(() => diagnosed(hosts), ['clock-difference: fail']);
    expect(findingOf(findings, 'clock-difference').found).toMatch(
      `127.0.0.3:${early.port}: the clock of the server`,
    );
  });
});
