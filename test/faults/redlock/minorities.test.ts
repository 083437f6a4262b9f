import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { QuorumError } from '../../../src/index.ts';
import { heard, type Process, startRedlockStage } from '../../redlock/support/stage.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually, later, renewals, shortest } from '../../support/waiting/eventually.ts';

const stage = await useStage(startRedlockStage());

const everyProxy = (process: Process, nodes: readonly number[], act: 'refuse' | 'black-hole'): void => {
  for (const node of nodes) {
    const proxy = process.proxies[node];
    if (act === 'black-hole') proxy?.drop('both');
    else {
      proxy?.refuse();
      proxy?.cut();
    }
  }
};
const heal = (process: Process): void => {
  for (const proxy of process.proxies) proxy.pass();
};

describe('row 37b: some nodes are slow, unreachable or silent', () => {
  it.each(['refuse', 'black-hole'] as const)(
    'two of five (%s): locks are acquired and kept without waiting for them',
    async (how) => {
      const process = await stage.process();
      await (await process.locks.mutex('warm').acquire()).release();
      everyProxy(process, [1, 3], how);
      const roundMs = async (): Promise<number> => {
        const startedMs = performance.now();
        await (await process.locks.mutex(`two ${how}`).acquire()).release();
        return performance.now() - startedMs;
      };
      // Less than the time limit of the silent nodes, once for the claim and once for the release.
      expect(await shortest(400, roundMs)).toBeLessThan(400);
      const hold = await process.locks.mutex(`two ${how}`).acquire({ ttlMs: 10_000, renewEveryMs: 400 });
      await renewals(process.locks, 3);
      hold.assertHeld();
      expect(await hold.release()).toBe(true);
      heal(process);
    },
  );

  it('two of five are silent: locks can still be listed', async () => {
    const process = await stage.process();
    const hold = await process.locks.mutex('listed without two').acquire();
    everyProxy(process, [0, 2], 'black-hole');
    const list = async (): Promise<string[]> => {
      const listed: string[] = [];
      for await (const { name } of process.locks.list('listed')) listed.push(name);
      return listed;
    };
    expect(await heard(list)).toEqual(['listed without two']);
    heal(process);
    await hold.release();
  });

  it('three of five: an error with one vote for each node, and nothing stays behind', async () => {
    const [process, other] = [await stage.process(), await stage.process()];
    await (await process.locks.mutex('warm').acquire()).release();
    everyProxy(process, [0, 2, 4], 'black-hole');
    let votes: QuorumError['votes'] = [];
    // The two reachable nodes answer, unless the machine is too slow for their time limit.
    await eventually('the others have voted', async () => {
      const lock = process.locks.mutex('three');
      const failure = await lock.tryAcquire().catch((error: unknown) => error);
      expect(failure).toMatchObject({ code: 'QUORUM' });
      ({ votes } = failure as QuorumError);
      return votes.filter(({ answer }) => answer === 'granted').length === 2;
    });
    expect(votes.map(({ answer }) => answer)).toEqual(['failed', 'granted', 'failed', 'granted', 'failed']);
    expect(votes.every(({ node }) => /^127\.0\.0\.1:\d+$/.test(node))).toBe(true);
    await eventually('nothing stays behind', async () => (await stage.keys('three')) === 0);
    await (await heard(() => other.locks.mutex('three').acquire({ waitMs: 0 }))).release();
    heal(process);
  });

  it('replies are lost: what the nodes have granted is taken back', async () => {
    const process = await stage.process();
    await (await process.locks.mutex('warm').acquire()).release();
    for (const node of [0, 1, 2]) process.proxies[node]?.holdReplies();
    await expect(process.locks.mutex('lost').tryAcquire()).rejects.toMatchObject({ code: 'QUORUM' });
    await eventually('nothing stays behind', async () => (await stage.keys('lost')) === 0);
    heal(process);
  });

  it('a majority that took longer than the lease is not a hold', async () => {
    const process = await stage.process();
    await (await process.locks.mutex('warm').acquire()).release();
    for (const proxy of process.proxies) proxy.delay(60);
    // The round trip takes 120 of its 150 ms.
    const hold = await process.locks
      .mutex('slow')
      .tryAcquire({ ttlMs: 150, renew: false })
      .catch(() => null);
    if (hold !== null) expect(hold.remainingMs).toBeLessThan(40);
    for (const proxy of process.proxies) proxy.delay(200);
    await expect(
      process.locks.mutex('slower').tryAcquire({ ttlMs: 150, renew: false }),
    ).rejects.toMatchObject({
      code: expect.stringMatching(/QUORUM|STORE/),
    });
    heal(process);
  });
});

describe('row 37c: votes that are split', () => {
  it.each([5, 4])(
    'twenty claims at once over %s nodes: each is granted, and never two at a time',
    async (count) => {
      await using own = await startRedlockStage(count);
      const processes = await Promise.all(Array.from({ length: 20 }, () => own.process()));
      let inside = 0;
      let most = 0;
      await Promise.all(
        processes.map((process) =>
          process.locks.mutex('x', { waitMs: 60_000 }).run(async () => {
            inside += 1;
            most = Math.max(most, inside);
            await sleep(2);
            inside -= 1;
          }),
        ),
      );
      expect(most).toBe(1);
    },
    120_000,
  );

  it('an even number of nodes is split in halves: both claims are refused, and then settle', async () => {
    await using own = await startRedlockStage(2);
    const [a, b] = [await own.process(), await own.process()];
    await own.admins[0]?.set('holdfast:half', '1800000000000000 other#000000000000.1', 'PX', 60_000);
    await own.admins[1]?.set('holdfast:half', '1800000000000000 another#000000000000.1', 'PX', 60_000);
    expect(await heard(() => a.locks.mutex('half').tryAcquire())).toBeNull();
    const pending = later(b.locks.mutex('half').acquire());
    await sleep(300);
    await own.admins[0]?.del('holdfast:half');
    await own.admins[1]?.del('holdfast:half');
    const hold = await pending;
    await hold.release();
  });
});

describe('row 37d: a renewal that only a minority confirms', () => {
  it('does not count: the hold is lost at its deadline', async () => {
    const process = await stage.process();
    const hold = await process.locks.mutex('minority').acquire({ ttlMs: 1_500 });
    let endedMs = 0;
    hold.signal.addEventListener('abort', () => {
      endedMs = performance.now();
    });
    everyProxy(process, [0, 1, 2], 'black-hole');
    const startedMs = performance.now();
    let renewed = 0;
    process.locks.on('renewed', () => {
      renewed += 1;
    });
    await eventually('it is lost', () => hold.signal.aborted);
    // One renewal may have been confirmed just before.
    expect(renewed).toBeLessThanOrEqual(1);
    expect(endedMs - startedMs).toBeLessThan(8_000);
    expect(() => hold.assertHeld()).toThrow(expect.objectContaining({ code: 'HOLD_LOST', how: 'expired' }));
    heal(process);
  });

  it('a majority has lost the claim: the holder is notified at once, and the rest is removed', async () => {
    const process = await stage.process();
    const hold = await process.locks.mutex('taken').acquire({ ttlMs: 20_000, renewEveryMs: 800 });
    // A majority is enough for a hold, so the other nodes may not have the claim yet.
    await eventually('all have it', async () => (await stage.keys('taken')) === 5);
    for (const node of [1, 2, 4]) await stage.admins[node]?.del('holdfast:taken');
    await eventually('it is lost', () => hold.signal.aborted, 15_000);
    expect(hold.signal.reason).toMatchObject({ how: 'taken' });
    await eventually('nothing stays behind', async () => (await stage.keys('taken')) === 0);
  });

  it('a node that has lost the claim gets it back: five restarts one after the other', async () => {
    await using own = await startRedlockStage();
    const process = await own.process();
    const hold = await process.locks.mutex('moving').acquire({ ttlMs: 15_000, renewEveryMs: 400 });
    for (const server of own.nodes.servers) {
      server.kill('SIGKILL');
      await server.exited();
      await server.start();
      await eventually('it is back at all of them', async () => (await own.keys('moving')) === 5);
    }
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
    await eventually('nothing stays behind', async () => (await own.keys('moving')) === 0);
  }, 120_000);
});
