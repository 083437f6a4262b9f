import type { Etcd3 } from 'etcd3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import { judgeQuota, judgeVersions } from '../../src/stores/etcd/diagnose.ts';
import { diagnose, expectProblems, findingOf, problemsIn } from '../support/doctor/findings.ts';
import { findingsAt, problemsAt } from '../support/doctor/store-findings.ts';
import { type EtcdCluster, startEtcdCluster } from '../support/servers/etcd.ts';
import { eventually } from '../support/waiting/eventually.ts';

const CHECKS = [
  'etcd-version',
  'etcd-leader',
  'etcd-corruption',
  'etcd-ttl',
  'etcd-members',
  'etcd-reachable',
  'etcd-quota',
  'clock-difference',
  'etcd-permissions',
];

const MIB = 1024 ** 2;
const QUOTA = 8 * MIB;
/** Debian's etcd 3.4.23 has defects, so that no cluster of it is without problems. */
const VERSION = 'etcd-version: warn';
const ALONE = 'etcd-members: warn';

function urlOf({ addresses }: EtcdCluster, user = ''): string {
  return `etcd://${user}${addresses.join(',')}`;
}

describe.concurrent('an etcd cluster', () => {
  let three: EtcdCluster;
  beforeAll(async () => {
    three = await startEtcdCluster();
  }, 60_000);
  afterAll(() => three.stop());

  it('of three members has no problem but the defects of its version', async () => {
    const findings = await expectProblems(() => findingsAt(urlOf(three)), [VERSION]);
    expect(findings.map(({ check }) => check)).toEqual(CHECKS);
    expect(findingOf(findings, 'etcd-version').means).toMatch(/#15247/);
    expect(findingOf(findings, 'etcd-version').advice).toBe('Run 3.4.38 or newer.');
    expect(findingOf(findings, 'etcd-quota').found).toMatch(/ % of the quota of 2048 MiB$/);
    const all = (await diagnose(urlOf(three))).map(({ check }) => check);
    expect(all.slice(-CHECKS.length)).toEqual(CHECKS);
    expect(all).toContain('store-answers');
  });

  it('may lose a hold in an election when the TTL is short', async () => {
    await expectProblems(() => findingsAt(urlOf(three), { ttlMs: 2_000 }), ['etcd-ttl: warn', VERSION]);
  });

  it('has a member that does not answer', async () => {
    await using own = await startEtcdCluster();
    own.members[2]?.server.kill('SIGKILL');
    const lost = ['etcd-reachable: warn', VERSION];
    // The cluster may have to elect another leader first.
    await eventually(
      'the loss is found',
      async () => `${await problemsAt(urlOf(own)).catch(() => [])}` === `${lost}`,
    );
    const { found } = findingOf(await findingsAt(urlOf(own)), 'etcd-reachable');
    expect(found).toMatch(/^2 of the 3 members answer; no answer from \S+$/);
    // The members are those of the cluster, not those of the URL.
    await expectProblems(() => findingsAt(`etcd://${own.addresses[0]}`), lost);
  }, 60_000);

  it('has another time than this host', async () => {
    const clock = { ...systemClock, wallMs: () => systemClock.wallMs() + 60_000 };
    const findings = await diagnose(urlOf(three), { clock });
    expect(findingOf(findings, 'clock-difference')).toMatchObject({
      level: 'warn',
      found: /is at least 5\d{4} ms behind the clock of this host/,
    });
  });

  it('of two members survives no loss, and grants nothing without a leader', async () => {
    await using two = await startEtcdCluster({ members: 2 });
    expect(await problemsAt(urlOf(two))).toEqual(['etcd-members: warn', VERSION]);
    two.members[0]?.server.kill('SIGKILL');
    const url = `etcd://${two.addresses[1]}`;
    const problem = 'etcd-leader: fail';
    await eventually('the leader is missed', async () => (await problemsAt(url)).includes(problem));
    expect(await problemsAt(url)).toEqual([problem, VERSION]);
  }, 60_000);

  it('fills its quota', async () => {
    // Every write is committed at once, so that it is part of the reported size before the next one.
    const args = [`--quota-backend-bytes=${QUOTA}`, '--backend-batch-limit=1'];
    await using one = await startEtcdCluster({ members: 1, args });
    expect(await problemsAt(urlOf(one))).toEqual([ALONE, VERSION]);
    const client = one.client();
    const problemAfter = async (level: string): Promise<string[]> => {
      for (let n = 0; n < 100; n += 1) {
        const problems = await problemsAt(urlOf(one));
        if (problems.includes(`etcd-quota: ${level}`)) return problems;
        await client
          .put(`filler/${level}/${n}`)
          .value(Buffer.alloc(MIB / 4))
          .catch(() => {});
      }
      throw new Error(`the quota never had the level ${level}`);
    };
    expect(await problemAfter('warn')).toEqual([ALONE, 'etcd-quota: warn', VERSION]);
    expect(await problemAfter('fail')).toEqual([ALONE, 'etcd-quota: fail', VERSION]);
  }, 60_000);

  it('raises the alarm of corrupt data', async () => {
    await using one = await startEtcdCluster({ members: 1 });
    await raiseCorrupt(one.client());
    expect(await problemsAt(urlOf(one))).toEqual(['etcd-corruption: fail', ALONE, VERSION]);
  }, 60_000);

  it('refuses a user that may only read, and no finding repeats the password', async () => {
    await using one = await startEtcdCluster({ members: 1 });
    await one.etcdctl('user', 'add', 'root:root');
    await one.etcdctl('user', 'grant-role', 'root', 'root');
    for (const [user, type] of [
      ['reader', 'read'],
      ['writer', 'readwrite'],
    ] as const) {
      await one.etcdctl('user', 'add', `${user}:pass-word`);
      await one.etcdctl('role', 'add', user);
      await one.etcdctl('role', 'grant-permission', '--prefix=true', user, type, 'holdfast/');
      await one.etcdctl('user', 'grant-role', user, user);
    }
    await one.etcdctl('auth', 'enable');
    expect(await problemsAt(urlOf(one, 'writer:pass-word@'))).toEqual([ALONE, VERSION]);
    const findings = await findingsAt(urlOf(one, 'reader:pass-word@'));
    expect(problemsIn(findings)).toEqual([ALONE, 'etcd-permissions: fail', VERSION]);
    expect(JSON.stringify(findings)).not.toContain('pass-word');
  }, 60_000);
});

async function raiseCorrupt(client: Etcd3): Promise<void> {
  const { header } = await client.maintenance.status();
  await client.maintenance.alarm({ action: 'Activate', memberID: header.member_id, alarm: 2 });
}

describe('the releases of etcd', () => {
  it.each([
    ['3.3.27', 'fail', /not made for this version/],
    ['3.4.18', 'warn', /#15247.*#20590.*#13205/],
    ['3.4.31', 'warn', /^A keep-alive can succeed for a lease that was just revoked/],
    ['3.4.38', 'ok', /No defect/],
    ['3.5.2', 'fail', /members can disagree about revisions/],
    ['3.5.12', 'warn', /#15247/],
    ['3.5.23', 'ok', /No defect/],
    ['3.6.4', 'warn', /^A keep-alive .*\(etcd #20590\)\.$/],
    ['3.6.5', 'ok', /No defect/],
    ['3.7.0', 'ok', /No defect/],
    ['4.0.0', 'ok', /No defect/],
  ])('%s: %s', (version, level, means) => {
    expect(judgeVersions([version])).toMatchObject({ level, found: `etcd ${version}`, means });
  });

  it('are judged by the worst member', () => {
    expect(judgeVersions(['3.5.23', '3.5.9', '3.5.9'])).toMatchObject({
      level: 'warn',
      found: 'etcd 3.5.23 and 3.5.9',
      advice: 'Run 3.5.23 or newer.',
    });
  });

  it('have a quota of 2 GiB where it is not visible', () => {
    expect(judgeQuota(1_500 * MIB, null, [])).toMatchObject({ level: 'ok' });
    expect(judgeQuota(1_700 * MIB, null, [])).toMatchObject({
      level: 'warn',
      found: /83 % of the default quota/,
    });
  });
});
