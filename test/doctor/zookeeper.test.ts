import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openLocks } from '../../src/index.ts';
import { judgeMembers, judgeServing, judgeVersions } from '../../src/stores/zookeeper/diagnose.ts';
import { diagnose, findingOf, problemsIn } from '../support/doctor/findings.ts';
import { findingsAt, problemsAt } from '../support/doctor/store-findings.ts';
import { type Ensemble, startEnsemble } from '../support/servers/zookeeper.ts';
import { eventually } from '../support/waiting/eventually.ts';

const CHECKS = [
  'zookeeper-version',
  'zookeeper-serving',
  'zookeeper-members',
  'zookeeper-session-limit',
  'zookeeper-session',
  'zookeeper-acl',
];

let three: Ensemble;
let one: Ensemble;
beforeAll(async () => {
  [three, one] = await Promise.all([
    startEnsemble({ maxSessionMs: 40_000 }),
    startEnsemble({ members: 1, maxSessionMs: 40_000 }),
  ]);
}, 60_000);
afterAll(async () => {
  await Promise.all([three.stop(), one.stop()]);
});

describe('a ZooKeeper ensemble', () => {
  it('of three members has no problems, and no finding repeats the password', async () => {
    const url = `zookeeper://app:pass-word@${three.address}/shop`;
    const findings = await findingsAt(url);
    expect(problemsIn(findings)).toEqual([]);
    expect(findings.map(({ check }) => check)).toEqual(CHECKS);
    expect(findingOf(findings, 'zookeeper-version').found).toMatch(/^ZooKeeper 3\.\d+\.\d+$/);
    expect(findingOf(findings, 'zookeeper-serving').found).toMatch(/^3 of the 3 members/);
    expect(findingOf(findings, 'zookeeper-members').found).toBe('3 voting members');
    expect(JSON.stringify(findings)).not.toContain('pass-word');
    const all = (await diagnose(url)).map(({ check }) => check);
    expect(all.slice(-CHECKS.length)).toEqual(CHECKS);
    expect(all).toContain('store-answers');
  });

  it('limits sessions', async () => {
    const findings = await findingsAt(`${three.url}?sessionMs=60000`, { ttlMs: 60_000 });
    expect(problemsIn(findings)).toEqual(['zookeeper-session-limit: warn']);
    expect(findingOf(findings, 'zookeeper-session-limit')).toMatchObject({
      found: 'a session lasts 40000 ms; 60000 ms were asked for',
      advice: expect.stringContaining('maxSessionTimeout'),
    });
    const short = await findingsAt(`${three.url}?sessionMs=100`);
    expect(problemsIn(short)).toEqual(['zookeeper-session-limit: warn', 'zookeeper-session: warn']);
    expect(findingOf(short, 'zookeeper-session-limit').advice).toMatch(/minSessionTimeout/);
  });

  it('ends sessions before an election is over, or long after the TTL', async () => {
    const short = await findingsAt(`${three.url}?sessionMs=4000`);
    expect(problemsIn(short)).toEqual(['zookeeper-session: warn']);
    expect(findingOf(short, 'zookeeper-session').means).toMatch(/election/);
    const long = await findingsAt(three.url, { ttlMs: 10_000 });
    expect(problemsIn(long)).toEqual(['zookeeper-session: warn']);
    expect(findingOf(long, 'zookeeper-session').means).toMatch(/does not know ttlMs/);
  });

  it('of one member survives no loss, and refuses a stranger', async () => {
    const alone = 'zookeeper-members: warn';
    expect(await problemsAt(one.url)).toEqual([alone]);
    await using locks = await openLocks(`zookeeper://owner:secret@${one.address}`);
    await (await locks.mutex('first').acquire()).release();
    const owner = await findingsAt(`zookeeper://owner:secret@${one.address}`);
    expect(problemsIn(owner)).toEqual([alone]);
    expect(findingOf(owner, 'zookeeper-acl').found).toBe('/locks is open to some clients only');
    const stranger = await findingsAt(one.url);
    expect(problemsIn(stranger)).toEqual(['zookeeper-acl: fail', alone]);
    expect(findingOf(stranger, 'zookeeper-acl').found).toMatch(/may not create nodes under \/locks$/);
    const elsewhere = await findingsAt(`${one.url}/team?root=/deep/down`);
    expect(findingOf(elsewhere, 'zookeeper-acl').found).toBe('/ is open to every client');
    expect(await createdIn(one, '/')).toEqual(['locks', 'zookeeper']);
  });

  it('of two members survives no loss', async () => {
    await using two = await startEnsemble({ members: 2, maxSessionMs: 40_000 });
    const findings = await findingsAt(two.url);
    expect(problemsIn(findings)).toEqual(['zookeeper-members: warn']);
    expect(findingOf(findings, 'zookeeper-members')).toMatchObject({
      found: '2 voting members',
      means: expect.stringMatching(/locks survive the loss of 0\./),
    });
  }, 60_000);

  it('has a member that does not serve', async () => {
    (await three.follower()).server.kill('SIGKILL');
    const problem = 'zookeeper-serving: warn';
    // A client whose member died needs a moment to find another one.
    const settled = async (): Promise<boolean> => {
      const problems = await problemsAt(three.url).catch(() => []);
      return problems.length === 1 && problems[0] === problem;
    };
    await eventually('the loss is found, and nothing else', settled);
    const { found } = findingOf(await findingsAt(three.url), 'zookeeper-serving');
    expect(found).toMatch(/^2 of the 3 members/);
  }, 60_000);

  it('is judged by what its members tell', () => {
    const silent = { version: null, mode: null, isServing: null };
    expect(judgeVersions([silent])).toMatchObject({ level: 'unknown', advice: /whitelist=srvr/ });
    expect(judgeServing([silent, silent])).toMatchObject({ level: 'unknown', advice: /whitelist=srvr/ });
    const old = { version: '3.4.14', mode: 'leader', isServing: true };
    expect(judgeVersions([silent, old])).toMatchObject({ level: 'fail', found: 'ZooKeeper 3.4.14' });
    const server = (n: number, role: string): string => `server.${n}=host:2888:3888:${role};2181`;
    const four = [1, 2, 3, 4].map((n) => server(n, 'participant')).join('\n');
    expect(judgeMembers(`${four}\nversion=0`)).toMatchObject({ level: 'warn', found: '4 voting members' });
    const observed = [four, server(5, 'participant'), server(6, 'observer')].join('\n');
    expect(judgeMembers(observed)).toMatchObject({
      level: 'ok',
      found: '5 voting members, and 1 that only observe',
    });
    expect(judgeMembers(null)).toMatchObject({ level: 'unknown' });
  });
});

/** The nodes under a path. */
async function createdIn(ensemble: Ensemble, path: string): Promise<string[]> {
  const client = ensemble.client();
  return await new Promise((resolve, reject) => {
    client.getChildren(path, (error, children) => (error ? reject(error) : resolve([...children].sort())));
  });
}
