import { Redis } from 'ioredis';
import { createSentinel } from 'redis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import {
  judgeQuorum,
  judgeState,
  type SentinelReading,
  type SentinelView,
} from '../../src/stores/redis/sentinel-checks.ts';
import { MASTER } from '../../src/torture/servers/redis-sentinel.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { diagnose, expectProblems, findingOf } from '../support/doctor/findings.ts';
import { GOOD_REDIS, told } from '../support/doctor/redis.ts';
import { type RedisSentinel, startRedisSentinel } from '../support/servers/redis-sentinel.ts';

let sentinel: RedisSentinel;
beforeAll(async () => {
  sentinel = await startRedisSentinel({ args: [...GOOD_REDIS, '--min-replicas-to-write', '1'] });
}, 120_000);
afterAll(() => sentinel.stop());

async function setAll(option: string, value: string): Promise<void> {
  for (const each of sentinel.sentinels) await told(each, 'SENTINEL', 'SET', MASTER, option, value);
}

describe('a Redis behind Sentinel', () => {
  it('that is set up well has no problems, with a client of the user too', async () => {
    const findings = await expectProblems(() => diagnose(sentinel.url), []);
    expect(findingOf(findings, 'redis-sentinel-quorum').found).toBe('3 Sentinels, quorum 2');
    const client = new Redis({ sentinels: [...sentinel.addresses], name: MASTER });
    const locks = createLocks(redisStore(client, { waitReplicas: 1 }));
    await expectProblems(() => locks.diagnose(), []);
    await locks.close();
    client.disconnect();
  });

  it('whose client does not tell its Sentinels leaves their checks unknown', async () => {
    const client = createSentinel({ name: MASTER, sentinelRootNodes: [...sentinel.addresses] });
    client.on('error', () => {});
    await client.connect();
    const locks = createLocks(redisStore(client));
    await expectProblems(
      () => locks.diagnose(),
      ['redis-sentinel-quorum: unknown', 'redis-sentinel-state: unknown'],
    );
    await locks.close();
    await client.destroy();
  });

  it('with a quorum that is too small, or that cannot be reached, is reported', async () => {
    await setAll('quorum', '1');
    await expectProblems(() => diagnose(sentinel.url), ['redis-sentinel-quorum: warn']);
    await setAll('quorum', '4');
    await expectProblems(() => diagnose(sentinel.url), ['redis-sentinel-quorum: fail']);
    await setAll('quorum', '2');
  });

  it('with a Sentinel that does not answer is reported', async () => {
    const [first] = sentinel.sentinels;
    first?.kill('SIGKILL');
    await first?.exited();
    const findings = await expectProblems(() => diagnose(sentinel.url), ['redis-sentinel-state: warn']);
    await first?.start();
    expect(findingOf(findings, 'redis-sentinel-state').found).toContain(`127.0.0.1:${first?.port}`);
  });

  it('with two Sentinels is reported', async () => {
    const [first, second, third] = sentinel.sentinels as [Server, Server, Server];
    third.kill('SIGKILL');
    await third.exited();
    // They forget the third one, and find each other and the replicas again.
    for (const each of [first, second]) await told(each, 'SENTINEL', 'RESET', MASTER);
    const url = `redis+sentinel://127.0.0.1:${first.port},127.0.0.1:${second.port}/${MASTER}`;
    const findings = await expectProblems(() => diagnose(url), ['redis-sentinel-quorum: warn']);
    expect(findingOf(findings, 'redis-sentinel-quorum').found).toBe('2 Sentinels, quorum 2');
    await third.start();
  });

  it('whose master a Sentinel cannot reach is reported', async () => {
    const [cutOff, ...others] = sentinel.sentinels as [Server, Server, Server];
    const master = { url: `redis://127.0.0.1:${await sentinel.masterPort()}` };
    for (const each of others) await told(each, 'SENTINEL', 'SET', MASTER, 'auth-pass', 'pass-word');
    for (const server of sentinel.servers) await told(server, 'CONFIG', 'SET', 'masterauth', 'pass-word');
    await told(cutOff, 'SENTINEL', 'SET', MASTER, 'down-after-milliseconds', '500');
    await told(master, 'CONFIG', 'SET', 'requirepass', 'pass-word');
    const known = { url: master.url.replace('://', '://:pass-word@') };
    // The Sentinels connect again, one of them without the password. A quorum needs two.
    for (const type of ['normal', 'pubsub']) await told(known, 'CLIENT', 'KILL', 'TYPE', type);
    const client = new Redis({ sentinels: [...sentinel.addresses], name: MASTER, password: 'pass-word' });
    const locks = createLocks(redisStore(client));
    const findings = await expectProblems(() => locks.diagnose(), ['redis-sentinel-state: fail']);
    expect(findingOf(findings, 'redis-sentinel-state').found).toBe(
      '1 of 3 Sentinels cannot reach the master',
    );
    await locks.close();
    client.disconnect();
  });
});

describe('the view of the Sentinels', () => {
  const view = { master: '10.0.0.1:6379', flags: ['master'], quorum: 2, sentinels: 3, replicas: 1 };
  const readings = (...changes: readonly Partial<SentinelView>[]): SentinelReading[] =>
    changes.map((change, n) => ({ address: `10.0.0.${n}:26379`, view: { ...view, ...change } }));

  it('is reported with fewer than three Sentinels, or without a replica', () => {
    expect(judgeQuorum(readings({ sentinels: 2 }, { sentinels: 2 })).level).toBe('warn');
    expect(judgeState(readings({ replicas: 0 }, { replicas: 0 })).level).toBe('warn');
    expect(judgeState(readings({}, {}, {})).level).toBe('ok');
  });

  it('is reported when they name different masters, or cannot reach the master', () => {
    const split = judgeState(readings({}, { master: '10.0.0.2:6379' }));
    expect(split).toMatchObject({ level: 'fail', found: expect.stringContaining('10.0.0.2:6379') });
    const down = judgeState(readings({}, { flags: ['master', 's_down'] }));
    expect(down).toMatchObject({ level: 'fail', found: '1 of 2 Sentinels cannot reach the master' });
  });
});
