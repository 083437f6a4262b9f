import { rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import { createLocks, type Finding } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { diagnose, expectProblems, findingOf, problemsIn } from '../support/doctor/findings.ts';
import { GOOD_REDIS, inSync, told } from '../support/doctor/redis.ts';
import { eventually } from '../support/waiting/eventually.ts';

/** The rights that docs/stores/redis.md lists, and those that only the checks need. */
const RIGHTS = [
  ...['~holdfast:*', '&holdfast:*', '-@all', '+evalsha', '+eval', '+time', '+get', '+set', '+del', '+exists'],
  ...['+pttl', '+pexpire', '+zadd', '+zrem', '+zscore', '+zrange', '+zrangebyscore', '+zrevrangebyscore'],
  ...['+zcount', '+hget', '+hset', '+hdel', '+hgetall', '+publish', '+subscribe', '+scan', '+info', '+hello'],
  ...['+select', '+ping', '+config|get'],
];

let good: Server;
beforeAll(async () => {
  good = await startRedis({ args: GOOD_REDIS });
});
afterAll(() => good.stop());

/** What is found for a user of the good server with these rights taken away. */
async function ofUser(name: string, ...taken: readonly string[]): Promise<Finding[]> {
  const rights = ['on', '>pass-word', 'resetkeys', 'resetchannels', ...RIGHTS, ...taken];
  await told(good, 'ACL', 'SETUSER', name, ...rights);
  const findings = await diagnose(`redis://${name}:pass-word@127.0.0.1:${good.port}`);
  expect(JSON.stringify(findings)).not.toContain('pass-word');
  return findings;
}

describe.concurrent('a Redis server', () => {
  it('that is set up well has no problems, with either client library', async () => {
    const findings = await expectProblems(() => diagnose(good.url), []);
    expect(findings.map(({ check }) => check).slice(-9)).toEqual([
      'redis-version',
      'redis-role',
      'redis-rights',
      'redis-eviction-policy',
      'redis-memory',
      'redis-persistence',
      'redis-replicas',
      'clock-difference',
      'wake-up',
    ]);
    const client = createClient({ url: good.url });
    await client.connect();
    const locks = createLocks(redisStore(client));
    await expectProblems(() => locks.diagnose(), []);
    await locks.close();
    client.destroy();
  });

  it('leaves no key behind after its rights were checked', async () => {
    await using server = await startRedis({ args: GOOD_REDIS });
    await diagnose(server.url);
    expect(await told(server, 'DBSIZE')).toBe(0);
  });

  it('that evicts keys is refused, and accepted with a warning where that is allowed', async () => {
    const args = [...GOOD_REDIS, '--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'];
    await using server = await startRedis({ args });
    await expectProblems(() => diagnose(server.url), ['redis-eviction-policy: fail']);
    const client = new Redis(server.url);
    const locks = createLocks(redisStore(client, { allowEviction: true }));
    await expectProblems(() => locks.diagnose(), ['redis-eviction-policy: warn']);
    await locks.close();
    client.disconnect();
  });

  it('whose memory is almost full is reported', async () => {
    await using server = await startRedis({ args: GOOD_REDIS });
    await told(server, 'SET', 'data', 'x'.repeat(20_000_000));
    await told(server, 'CONFIG', 'SET', 'maxmemory', '23000000');
    await expectProblems(() => diagnose(server.url), ['redis-memory: warn']);
  });

  it.each([
    ['nothing', 'nothing is saved', ['--appendonly', 'no']],
    ['snapshots', 'only snapshots', ['--appendonly', 'no', '--save', '3600 1']],
    ['each second', 'appendfsync everysec', ['--appendfsync', 'everysec']],
    ['when the system likes to', 'appendfsync no', ['--appendfsync', 'no']],
  ])('that saves %s is reported', async (_, found, args) => {
    await using server = await startRedis({ args: [...GOOD_REDIS, ...args] });
    const findings = await expectProblems(() => diagnose(server.url), ['redis-persistence: warn']);
    expect(findingOf(findings, 'redis-persistence').found).toContain(found);
  });

  it('that cannot save is reported, as a failure only while it refuses writes', async () => {
    const args = [...GOOD_REDIS, '--appendonly', 'no', '--save', '3600 1'];
    await using server = await startRedis({ args });
    rmSync(server.dir, { recursive: true });
    await told(server, 'SET', 'data', '1');
    await told(server, 'BGSAVE');
    await eventually('the snapshot fails', async () =>
      String(await told(server, 'INFO', 'persistence')).includes('rdb_last_bgsave_status:err'),
    );
    await expectProblems(() => diagnose(server.url), ['redis-persistence: fail']);
    await expect(told(server, 'SET', 'data', '2')).rejects.toThrow(/MISCONF/);
    await told(server, 'CONFIG', 'SET', 'stop-writes-on-bgsave-error', 'no');
    const ignored = await expectProblems(() => diagnose(server.url), ['redis-persistence: warn']);
    expect(findingOf(ignored, 'redis-persistence').found).toMatch(/, and the last one failed$/);
    await told(server, 'CONFIG', 'SET', 'stop-writes-on-bgsave-error', 'yes');
    // Without save points, a snapshot by hand that failed stops nothing.
    await told(server, 'CONFIG', 'SET', 'save', '');
    const unsaved = await expectProblems(() => diagnose(server.url), ['redis-persistence: warn']);
    expect(findingOf(unsaved, 'redis-persistence').found).toBe('nothing is saved to disk');
    expect(await told(server, 'SET', 'data', '2')).toBe('OK');
  });

  it('that is a replica, and a master with replicas, are reported', async () => {
    await using master = await startRedis({ args: [...GOOD_REDIS, '--repl-diskless-sync-delay', '0'] });
    const replicaArgs = [...GOOD_REDIS, '--replicaof', '127.0.0.1', `${master.port}`];
    await using replica = await startRedis({ args: replicaArgs });
    await inSync(replica);
    await expectProblems(() => diagnose(replica.url), ['redis-role: fail']);
    await expectProblems(() => diagnose(master.url), ['redis-replicas: warn']);
    await told(master, 'CONFIG', 'SET', 'min-replicas-to-write', '1');
    await eventually('the replica is in time', async () =>
      String(await told(master, 'INFO', 'replication')).includes('min_slaves_good_slaves:1'),
    );
    await expectProblems(() => diagnose(master.url), []);
    await told(master, 'CONFIG', 'SET', 'min-replicas-to-write', '2');
    await expectProblems(() => diagnose(master.url), ['redis-replicas: fail']);
  });

  it('with fewer replicas than have to confirm a grant is reported', async () => {
    const client = new Redis(good.url);
    const locks = createLocks(redisStore(client, { waitReplicas: 1 }));
    await expectProblems(() => locks.diagnose(), ['redis-wait-replicas: fail']);
    await locks.close();
    client.disconnect();
  });

  it('whose clock differs is reported', async () => {
    const clock = { ...systemClock, wallMs: () => systemClock.wallMs() + 60_000 };
    const findings = await expectProblems(() => diagnose(good.url, { clock }), ['clock-difference: warn']);
    expect(findingOf(findings, 'clock-difference').found).toMatch(/is at least \d+ ms behind/);
  });

  it('that is too old is reported', async () => {
    // An old server, as far as the checks go: it answers INFO with its version.
    const info = 'redis_version:6.0.16\r\nrole:master\r\nloading:0\r\n';
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (data) => {
        for (const command of data.toString().split(/(?=\*\d+\r\n\$)/))
          socket.write(/\r\ninfo\r\n/i.test(command) ? `$${info.length}\r\n${info}\r\n` : '+OK\r\n');
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const findings = await diagnose(`redis://127.0.0.1:${(server.address() as AddressInfo).port}`);
    expect(problemsIn(findings)).toContain('redis-version: fail');
    expect(problemsIn(findings).filter((problem) => problem.endsWith('fail'))).toHaveLength(1);
    server.close();
  });

  it('that is out of reach rejects with the reason', async () => {
    await using server = await startRedis();
    server.kill('SIGKILL');
    await server.exited();
    await expect(diagnose(server.url, { commandMs: 4_000 })).rejects.toMatchObject({
      code: 'STORE',
      message: /ECONNREFUSED/,
    });
    const wrong = `redis://nobody:pass-word@127.0.0.1:${good.port}`;
    await expect(diagnose(wrong, { commandMs: 4_000 })).rejects.toMatchObject({
      code: 'STORE',
      message: /WRONGPASS/,
    });
  });
});

describe.concurrent('a Redis user', () => {
  it('with the documented rights has no problems', async () => {
    await expectProblems(() => ofUser('documented'), []);
  });

  it('that may not run a command of the scripts is reported, with the command', async () => {
    const findings = await expectProblems(() => ofUser('no-zadd', '-zadd', '-hset'), ['redis-rights: fail']);
    expect(findingOf(findings, 'redis-rights').found).toBe('the user may not run zadd, hset');
  });

  it('that may not publish to the channels of the locks is reported', async () => {
    await expectProblems(
      () => ofUser('no-channels', 'resetchannels', '&other:*'),
      ['redis-rights: fail', 'wake-up: warn'],
    );
  });

  it('that may not use the keys of the locks is reported', async () => {
    await expectProblems(() => ofUser('no-keys', 'resetkeys', '~other:*'), ['redis-rights: fail']);
  });

  it('that may not subscribe is reported: its waiters poll', async () => {
    await expectProblems(() => ofUser('no-subscribe', '-subscribe'), ['wake-up: warn']);
  });

  it('that may not list keys is reported', async () => {
    await expectProblems(() => ofUser('no-scan', '-scan'), ['redis-rights: warn']);
  });

  it('that may not read the settings of the server leaves their checks unknown', async () => {
    await expectProblems(() => ofUser('no-config', '-config|get'), ['redis-persistence: unknown']);
    await expectProblems(
      () => ofUser('no-info', '-info'),
      [
        'redis-eviction-policy: unknown',
        'redis-memory: unknown',
        'redis-persistence: unknown',
        'redis-replicas: unknown',
        'redis-role: unknown',
        'redis-version: unknown',
      ],
    );
  });
});

it('a setting that only looks wrong is not reported', async () => {
  // Without maxmemory, the policy has no effect.
  await using server = await startRedis({ args: [...GOOD_REDIS, '--maxmemory-policy', 'allkeys-lru'] });
  await expectProblems(() => diagnose(server.url), []);
  await told(server, 'CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
  await told(server, 'CONFIG', 'SET', 'maxmemory', '100mb');
  await expectProblems(() => diagnose(server.url), []);
});
