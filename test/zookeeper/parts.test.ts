import { describe, expect, it } from 'vitest';
import { InvalidArgumentError } from '../../src/errors.ts';
import { instant } from '../../src/hold/validity.ts';
import { Gate } from '../../src/stores/zookeeper/gate.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { Line } from '../../src/stores/zookeeper/line.ts';
import { Liveness } from '../../src/stores/zookeeper/liveness.ts';
import { decodeName, encodeName, nodePrefix, parseNode } from '../../src/stores/zookeeper/node-name.ts';
import { parseZookeeperUrl } from '../../src/stores/zookeeper/url.ts';
import { LockNode, Vacancies } from '../../src/stores/zookeeper/vacancies.ts';
import { virtualClock } from '../../src/testing/index.ts';

const lineOf = (...names: string[]): Line => new Line({ names, zxid: 1n });

describe('the names of nodes', () => {
  it('carry the claim, and are read back', () => {
    const modes = [{ kind: 'exclusive' }, { kind: 'shared' }, { kind: 'permits', count: 2, of: 5 }] as const;
    for (const mode of modes) {
      for (const id of ['web-1:4711:k3j9#0f1e2d3c4b5a.2s', 'a~b/c%__lock__0000000001#x', '🔒']) {
        const node = `${nodePrefix(id, '1000a', mode)}0000000042`;
        expect(parseNode(node)).toEqual({ node, id, session: '1000a', mode, place: 42 });
      }
    }
  });

  it('of other programs are claims without a session; anything else is no claim', () => {
    const [lock, reader] = [`${'0f'.repeat(16)}__lock__0000000007`, `${'0f'.repeat(16)}__rlock__0000000008`];
    expect(parseNode(lock)).toMatchObject({ id: lock, session: null, mode: { kind: 'exclusive' }, place: 7 });
    expect(parseNode(reader)).toMatchObject({ mode: { kind: 'shared' }, place: 8 });
    expect(parseNode('lock-0000000001')).toBeNull();
    expect(parseNode('__lock__1')).toBeNull();
  });

  it('are escaped only where ZooKeeper refuses, and back', () => {
    for (const name of ['x y', 'é', '*?#~', '...', '.a'] as const) expect(encodeName(name)).toBe(name);
    for (const name of ['.', '..', 'a/b', '%', '%2F', '🔒', '\ufff9', '\ue000', '\u0085']) {
      expect(encodeName(name)).not.toBe(name);
      expect(decodeName(encodeName(name))).toBe(name);
    }
  });
});

describe('row 57: places in line are numbers of 32 bits', () => {
  it('that go on below zero when they have run out', () => {
    const [a, b, c] = ['a~1__lock__2147483646', 'b~1__lock__2147483647', 'c~1__lock__-2147483648'] as const;
    const line = lineOf(c, a, b);
    expect(line.claims.map(({ id }) => id)).toEqual(['a', 'b', 'c']);
    expect(line.judge(0)).toEqual({ granted: true });
    expect(line.judge(2)).toEqual({ granted: false, behind: b });
    // The sign takes the place of a digit, as Java writes it.
    expect(parseNode('d~1__lock__-000000005')).toMatchObject({ id: 'd', session: '1', place: -5 });
  });
});

describe('the place that a line goes on with', () => {
  const watched = (emptyTo: number | null) => {
    const [vacancies, node] = [new Vacancies(), new LockNode()];
    node.emptyTo = emptyTo;
    vacancies.add('/locks/a', node);
    return { vacancies, node };
  };

  it('is the next number, also where numbers go on below zero, and one claim at a time counts on it', () => {
    for (const [last, next] of [
      [7, 8],
      [2_147_483_647, -2_147_483_648],
    ] as const) {
      const { vacancies } = watched(last);
      const vacancy = vacancies.take('/locks/a');
      expect(vacancy?.place).toBe(next);
      expect(vacancies.take('/locks/a')).toBeNull();
      expect(vacancy && vacancies.isAlone(vacancy, next)).toBe(true);
    }
  });

  it('is worth nothing once the node was removed or the connection was lost, though it was taken before', () => {
    for (const end of ['removed', 'lost'] as const) {
      const { vacancies, node } = watched(7);
      const vacancy = vacancies.take('/locks/a');
      if (end === 'removed') node.broken({});
      else vacancies.reset();
      expect(vacancy && vacancies.isAlone(vacancy, 8)).toBe(false);
      expect(vacancies.nodeOf('/locks/a')).toBeNull();
    }
  });

  it('is not counted on while others use the lock too: then the line is read along with every claim', () => {
    const { vacancies, node } = watched(7);
    const vacancy = vacancies.take('/locks/a');
    expect(vacancy?.isLikely).toBe(true);
    expect(vacancy && vacancies.isAlone(vacancy, 9)).toBe(false);
    node.emptyTo = 9;
    const next = vacancies.take('/locks/a');
    expect(next?.isLikely).toBe(false);
    expect(next && vacancies.isAlone(next, 10)).toBe(true);
    node.emptyTo = 10;
    expect(vacancies.take('/locks/a')?.isLikely).toBe(true);
  });
});

describe('row 18: what can wait', () => {
  it('goes in bounded numbers, in order, and whoever stands in line before those who come', async () => {
    const gate = new Gate(
      virtualClock(),
      () => true,
      () => 5_000,
    );
    const begun: string[] = [];
    const ends: (() => void)[] = [];
    const work = (name: string) => (): Promise<void> => {
      begun.push(name);
      return new Promise((resolve) => void ends.push(resolve));
    };
    const coming = Array.from({ length: 1_000 }, (_, n) => gate.run(work(`comes ${n}`), false));
    const standing = Array.from({ length: 5 }, (_, n) => gate.run(work(`stands ${n}`), true));
    const atOnce = begun.length;
    expect(atOnce).toBeLessThanOrEqual(256);
    while (ends.length > 0) {
      const some = ends.splice(0, 3);
      for (const end of some) end();
      await new Promise(setImmediate);
      expect(ends.length).toBeLessThanOrEqual(atOnce);
    }
    await Promise.all([...coming, ...standing]);
    const came = begun.filter((name) => name.startsWith('comes'));
    expect(came).toEqual(came.map((_, n) => `comes ${n}`));
    expect(begun.slice(atOnce, atOnce + 5)).toEqual([0, 1, 2, 3, 4].map((n) => `stands ${n}`));
  });

  it('goes in smaller numbers while the answers take long, and in greater ones again', async () => {
    const clock = virtualClock();
    const gate = new Gate(
      clock,
      () => true,
      () => 5_000,
    );
    let underWay = 0;
    let most = 0;
    const work = (ms: number) => async (): Promise<void> => {
      underWay += 1;
      most = Math.max(most, underWay);
      await new Promise<void>((resolve) => void clock.startTimer(ms, resolve));
      underWay -= 1;
    };
    const burst = async (ms: number): Promise<number> => {
      most = 0;
      const all = Promise.all(Array.from({ length: 1_000 }, () => gate.run(work(ms), false)));
      await clock.advance(ms * 1_000);
      await all;
      return most;
    };
    expect(await burst(10)).toBe(256);
    await burst(1_000);
    expect(await burst(1_000)).toBeLessThanOrEqual(9);
    await burst(10);
    expect(await burst(10)).toBe(256);
  });

  it('is turned down, all of it, when the connection is gone by its turn', async () => {
    let isOpen = true;
    const gate = new Gate(
      virtualClock(),
      () => isOpen,
      () => 5_000,
    );
    const ends: (() => void)[] = [];
    const first = gate.run(() => new Promise<void>((resolve) => void ends.push(resolve)), false);
    const others = Array.from({ length: 400 }, () => gate.run(() => new Promise<void>(() => {}), false));
    const turnedDown = Promise.allSettled(others.slice(255));
    isOpen = false;
    ends[0]?.();
    await first;
    for (const each of await turnedDown) expect(each).toMatchObject({ reason: { applied: 'no' } });
  });
});

describe('a claim that stands in line twice', () => {
  it('is the first of the two, and one of another session is not it', () => {
    const line = lineOf('a~2__lock__0000000003', 'a~2__lock__0000000002', 'a~1__lock__0000000001');
    expect(line.placeOf('a', '2')).toBe(1);
    expect(line.placeOf('a', '3')).toBe(-1);
    expect(line.hasTwice('a')).toBe(true);
  });
});

describe('row 56: how long a session is trusted', () => {
  const start = () => {
    const clock = virtualClock();
    const liveness = new Liveness(clock);
    liveness.begin(instant(clock), 3_000);
    const left = (): number => liveness.leftMs(instant(clock));
    return { clock, liveness, left };
  };

  it('reads do not prolong it: a member that is cut off answers them too', async () => {
    const { clock, liveness, left } = start();
    for (let round = 0; round < 10; round += 1) {
      await clock.advance(250);
      liveness.heard(instant(clock), false);
    }
    expect(left()).toBe(500);
  });

  it('a write confirms what was answered a third of the time-out before it was sent, and nothing later', async () => {
    const { clock, liveness, left } = start();
    for (let round = 0; round < 8; round += 1) {
      await clock.advance(250);
      liveness.heard(instant(clock), false);
    }
    // At 2,000: everything until 1,000 has reached the leader.
    liveness.heard(instant(clock), true);
    expect(left()).toBe(2_000);
  });

  it('a write over a new connection confirms that the session was taken up after the old one was lost', async () => {
    const { clock, liveness, left } = start();
    await clock.advance(2_000);
    const lost = instant(clock);
    await clock.advance(500);
    liveness.reopen(lost);
    expect(left()).toBe(500);
    await clock.advance(10);
    liveness.heard(instant(clock), true);
    expect(left()).toBe(2_490);
  });

  it('an answer to what was sent before the new connection confirms nothing of it', async () => {
    const { clock, liveness, left } = start();
    const sent = instant(clock);
    await clock.advance(2_000);
    liveness.reopen(instant(clock));
    liveness.heard(sent, true);
    expect(left()).toBe(1_000);
  });

  it('what was sent long before, and has waited for its turn, has no less than what is sent now', async () => {
    const { clock, liveness, left } = start();
    const early = instant(clock);
    for (let round = 0; round < 20; round += 1) {
      await clock.advance(250);
      liveness.heard(instant(clock), true);
    }
    expect(left()).toBeGreaterThan(1_000);
    // The same instant, counted from the earlier one.
    expect(liveness.leftMs(early)).toBe(left() + 5_000);
  });

  it('idle for a day, it remembers no more than it needs', async () => {
    const { clock, liveness, left } = start();
    for (let round = 0; round < 500; round += 1) {
      await clock.advance(375);
      liveness.heard(instant(clock), false);
    }
    expect(left()).toBeLessThan(0);
    liveness.heard(instant(clock), true);
    expect(left()).toBeGreaterThanOrEqual(3_000 - 1_000 - 375);
  });
});

describe('a zookeeper:// URL', () => {
  it('names hosts, a chroot, a root, a user and a session time-out', () => {
    expect(parseZookeeperUrl('zookeeper://a,b:2182/team/x?sessionMs=5000')).toEqual({
      hosts: 'a:2181,b:2182',
      root: '/team/x/locks',
      auth: null,
      sessionMs: 5_000,
    });
    expect(parseZookeeperUrl('zookeeper://ann:s%3Acret@a')).toMatchObject({
      auth: { username: 'ann', password: 's:cret' },
      root: '/locks',
      sessionMs: 30_000,
    });
    const rootOf = (url: string): string => parseZookeeperUrl(url).root;
    expect(rootOf('zookeeper://a?root=/app/mutexes')).toBe('/app/mutexes');
    expect(rootOf('zookeeper://a/team?root=%2Fjobs')).toBe('/team/jobs');
    expect(rootOf('zookeeper://a/team/?root=/')).toBe('/team');
    expect(rootOf('zookeeper://a?root=/')).toBe('/');
  });

  it.each([
    'zookeeper://',
    'zookeeper://a?sessionMs=soon',
    'zookeeper://a?x=1',
    'zookeeper://a?root=',
    'zookeeper://a?root=locks',
    'zookeeper://a/team?root=/locks/',
    'zookeeper://a/%',
    'zookeeper://[::1]:2181',
    'zookeeper://a:b:c',
  ])('that makes no sense is refused, and not repeated: %s', (url) => {
    const parse = (): unknown => parseZookeeperUrl(url.replace('://', '://ann:secret@'));
    expect(parse).toThrow(InvalidArgumentError);
    expect(parse).not.toThrow(/secret/);
  });

  it('nor is a root that is no path', () => {
    for (const root of ['locks', '/locks/', '//', ''])
      expect(() => zookeeperStore(() => ({}) as never, { root })).toThrow(InvalidArgumentError);
  });
});
