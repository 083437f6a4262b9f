import { setTimeout as sleep } from 'node:timers/promises';
import type { Etcd3 } from 'etcd3';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createLocks, type Locks } from '../../../src/index.ts';
import { etcdStore } from '../../../src/stores/etcd/index.ts';
import { type EtcdCluster, type EtcdMember, startEtcdCluster } from '../../support/servers/etcd.ts';
import { expectToldAfterSleep, expectToldInTime, witness } from './witness.ts';

/** Members that die, sleep and come back. One after the other on one cluster. */
let cluster: EtcdCluster;
beforeAll(async () => {
  cluster = await startEtcdCluster();
});
afterAll(() => cluster?.stop());

function locksOn(client: Etcd3): Locks {
  const locks = createLocks(etcdStore(client), { waitMs: 60_000 });
  onTestFinished(() => locks.close({ drainMs: 0 }));
  return locks;
}

const clientOf = (members: readonly EtcdMember[]): Etcd3 =>
  cluster.client({ hosts: members.map((member) => `http://${member.address}`) });

async function parts(): Promise<{ leader: EtcdMember; followers: [EtcdMember, EtcdMember] }> {
  await cluster.writable();
  const leader = await cluster.leader();
  const [a, b] = cluster.members.filter((member) => member !== leader);
  if (a === undefined || b === undefined) throw new Error('three members are needed');
  return { leader, followers: [a, b] };
}

/** Stops the member for a while, as a paused machine is. */
async function asleep(member: EtcdMember, ms: number): Promise<void> {
  member.server.kill('SIGSTOP');
  await sleep(ms);
  member.server.kill('SIGCONT');
}

let count = 0;
const freshName = (): string => `members-${count++}`;

describe('a member of etcd fails', () => {
  // The lease lives on at the next leader or it does not; in both cases the holder knows before anybody else can hold.
  for (const where of ['a follower', 'the leader'] as const) {
    it(`row 50: the leader sleeps longer than the TTL, and the holder talks to ${where}`, {
      timeout: 60_000,
    }, async () => {
      const { leader, followers } = await parts();
      const client = clientOf(where === 'the leader' ? [leader] : [followers[0]]);
      const others = clientOf(followers);
      const seen = await witness(locksOn(client), locksOn(others), others, freshName(), 5_000);
      await asleep(leader, 8_000);
      await sleep(2_000);
      // Kept through the change of leader: then it is ours until we give it up.
      if (seen.lostAt() === null) expect(await seen.hold.release()).toBe(true);
      else expectToldAfterSleep(seen, await seen.next, 3_000);
      expect((await seen.next).hold.fence).toBeGreaterThan(seen.hold.fence);
      await (await seen.next).hold.release();
    });
  }

  it('row 51: a leader that slept answers for leases it no longer rules: its word does not prolong a hold', {
    timeout: 60_000,
  }, async () => {
    const { leader, followers } = await parts();
    const others = clientOf(followers);
    const seen = await witness(locksOn(clientOf([leader])), locksOn(others), others, freshName(), 9_000);
    // Long enough for another leader, short enough that answers to the keep-alives that wait in its socket come in time to be believed.
    await asleep(leader, 5_000);
    const until = performance.now() + 9_000;
    while (performance.now() < until && seen.lostAt() === null) await sleep(50);
    if (seen.lostAt() === null) expect(await seen.hold.release()).toBe(true);
    else expectToldAfterSleep(seen, await seen.next, 4_500);
    await (await seen.next).hold.release();
  });

  it('row 54: a leader that is killed costs no hold and no waiter', { timeout: 60_000 }, async () => {
    const { leader } = await parts();
    const [first, second] = [locksOn(cluster.client()), locksOn(cluster.client())];
    const name = freshName();
    const hold = await first.mutex(name).acquire({ ttlMs: 10_000 });
    const waiting = second.mutex(name).acquire();
    await sleep(300);
    leader.server.kill('SIGKILL');
    await leader.server.exited();
    await sleep(5_000);
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
    const next = await waiting;
    expect(next.fence).toBeGreaterThan(hold.fence);
    await leader.server.start();
    expect(await next.release()).toBe(true);
  });

  it('row 54: a waiter on the member that dies is woken all the same', { timeout: 60_000 }, async () => {
    const { followers } = await parts();
    const [lost, left] = followers;
    const name = freshName();
    const hold = await locksOn(clientOf([left]))
      .mutex(name)
      .acquire({ ttlMs: 20_000 });
    const waiting = locksOn(clientOf([lost, left]))
      .mutex(name)
      .acquire();
    await sleep(500);
    lost.server.kill('SIGKILL');
    await lost.server.exited();
    await hold.release();
    const startedAt = performance.now();
    const next = await waiting;
    expect(performance.now() - startedAt).toBeLessThan(12_000);
    await lost.server.start();
    await next.release();
  });

  it('row 54: the majority is lost: the holder is told in time, nobody else holds, and it goes on when the majority is back', {
    timeout: 90_000,
  }, async () => {
    const { leader, followers } = await parts();
    const others = cluster.client();
    const seen = await witness(locksOn(cluster.client()), locksOn(others), others, freshName(), 3_000);
    let granted = false;
    void seen.next.then(() => {
      granted = true;
    });
    for (const member of [leader, followers[0]]) {
      member.server.kill('SIGKILL');
      await member.server.exited();
    }
    await sleep(6_000);
    expect(seen.lostAt(), 'the holder was not told').not.toBeNull();
    expect(granted, 'a minority has granted a lock').toBe(false);
    await Promise.all([leader.server.start(), followers[0].server.start()]);
    const next = await seen.next;
    expectToldInTime(seen, next);
    await next.hold.release();
  });

  it('rule 8: a cluster that was rebuilt from nothing is refused, not believed', {
    timeout: 60_000,
  }, async () => {
    const rebuilt = await startEtcdCluster({ members: 1 });
    onTestFinished(() => rebuilt.stop());
    const { header } = await cluster.client().put('revision').value('');
    const store = etcdStore(rebuilt.client());
    onTestFinished(() => store.close());
    const request = {
      name: 'rebuilt',
      id: 'me#1',
      mode: { kind: 'exclusive' },
      ttlMs: 5_000,
      note: '',
      fenceAbove: BigInt(header.revision) + 1_000n,
    } as const;
    for (const wait of [false, true]) {
      await expect(store.claim({ ...request, wait })).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
      expect(await store.read('rebuilt')).toEqual([]);
    }
  });
});
