import { setTimeout as sleep } from 'node:timers/promises';
import type { Etcd3 } from 'etcd3';
import { describe, expect, it } from 'vitest';
import { createLocks, type Locks } from '../../../src/index.ts';
import { etcdStore } from '../../../src/stores/etcd/index.ts';
import { request } from '../../../src/testing/store-case.ts';
import type { EtcdMember } from '../../../src/torture/servers/etcd.ts';
import { followersOf } from '../../support/faults/followers.ts';
import { type EtcdCluster, startEtcdCluster } from '../../support/servers/etcd.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';
import { firstRenewed, renewed } from '../../support/waiting/renewed.ts';
import { expectLostInTime, expectNotifiedAfterPause, witness } from './support/witness.ts';

/**
 * Members that die, sleep and come back. Most of the time is spent waiting, so every test has a
 * cluster of its own and all run at once.
 */
class Subject implements AsyncDisposable {
  readonly #all: Locks[] = [];
  readonly cluster: EtcdCluster;
  readonly leader: EtcdMember;
  readonly followers: readonly [EtcdMember, EtcdMember];

  static async start(): Promise<Subject> {
    const cluster = await startEtcdCluster();
    await cluster.writable();
    return new Subject(cluster, await cluster.leader());
  }

  constructor(cluster: EtcdCluster, leader: EtcdMember) {
    this.cluster = cluster;
    this.leader = leader;
    this.followers = followersOf(cluster.members, leader);
  }

  clientOf(members: readonly EtcdMember[]): Etcd3 {
    return this.cluster.client({ hosts: members.map((member) => `http://${member.address}`) });
  }

  locksOn(client: Etcd3): Locks {
    const locks = createLocks(etcdStore(client), { waitMs: 60_000 });
    this.#all.push(locks);
    return locks;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#all.map((locks) => locks.close({ drainMs: 0 })));
    await this.cluster.stop();
  }
}

/** Pauses the member for a while. */
async function pause(member: EtcdMember, ms: number): Promise<void> {
  member.server.kill('SIGSTOP');
  await sleep(ms);
  member.server.kill('SIGCONT');
}

async function crash({ server }: EtcdMember): Promise<void> {
  server.kill('SIGKILL');
  await server.exited();
}

describe.concurrent('a member of etcd fails', () => {
  it('row 50: the leader is paused for longer than the TTL, and holders talk to it and to a follower', {
    timeout: 90_000,
  }, async () => {
    await using subject = await Subject.start();
    const { leader, followers } = subject;
    const others = subject.clientOf(followers);
    const holders = [subject.clientOf([leader]), subject.clientOf([followers[0]])];
    const all = await Promise.all(
      holders.map((client, n) =>
        witness(subject.locksOn(client), subject.locksOn(others), others, `slept-${n}`, 4_000),
      ),
    );
    await pause(leader, 6_500);
    await sleep(2_000);
    for (const seen of all) {
      // The lease lives on at the next leader, or it ends. In both cases the holder is notified
      // before another can hold. A lease that lives on keeps the hold until it is released.
      if (seen.lostAt() === null) expect(await seen.hold.release()).toBe(true);
      const next = await seen.next;
      if (seen.lostAt() !== null) expectNotifiedAfterPause(seen, next, 5_000);
      expect(next.hold.fence).toBeGreaterThan(seen.hold.fence);
      await next.hold.release();
    }
  });

  it('row 51: a resumed leader confirms a lease that it no longer owns: its reply does not prolong a hold', {
    timeout: 90_000,
  }, async () => {
    await using subject = await Subject.start();
    const { leader, followers } = subject;
    const others = subject.clientOf(followers);
    const seen = await witness(
      subject.locksOn(subject.clientOf([leader])),
      subject.locksOn(others),
      others,
      'members',
      6_500,
    );
    // Long enough for another leader to be elected. Short enough that the old leader, once awake,
    // answers the keep-alives in its socket before they have timed out.
    await pause(leader, 4_000);
    const until = performance.now() + 7_000;
    while (performance.now() < until && seen.lostAt() === null) await sleep(50);
    if (seen.lostAt() === null) expect(await seen.hold.release()).toBe(true);
    const next = await seen.next;
    if (seen.lostAt() !== null) expectNotifiedAfterPause(seen, next, 7_000);
    await next.hold.release();
  });

  it('row 54: a leader that is killed costs no hold and no waiter', { timeout: 60_000 }, async () => {
    await using subject = await Subject.start();
    const { cluster, leader } = subject;
    const [first, second] = [subject.locksOn(cluster.client()), subject.locksOn(cluster.client())];
    const name = 'members';
    const hold = await first.mutex(name).acquire({ ttlMs: 10_000 });
    const waiting = later(second.mutex(name).acquire());
    await eventually('the waiter', async () => (await first.inspect(name)).waiters.length === 1);
    await crash(leader);
    // The next leader answers this renewal.
    await renewed(hold);
    expect(await hold.release()).toBe(true);
    const next = await waiting;
    expect(next.fence).toBeGreaterThan(hold.fence);
    await leader.server.start();
    expect(await next.release()).toBe(true);
  });

  it('row 54: a waiter on the member that dies is still woken', { timeout: 60_000 }, async () => {
    await using subject = await Subject.start();
    const { followers } = subject;
    const [lost, left] = followers;
    const name = 'members';
    const locks = subject.locksOn(subject.clientOf([left]));
    const hold = await locks.mutex(name).acquire({ ttlMs: 20_000 });
    const waiting = later(
      subject
        .locksOn(subject.clientOf([lost, left]))
        .mutex(name)
        .acquire(),
    );
    await eventually('the waiter', async () => (await locks.inspect(name)).waiters.length === 1);
    // Its watch is established by then.
    await sleep(300);
    await crash(lost);
    await hold.release();
    const startedAt = performance.now();
    const next = await waiting;
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    await lost.server.start();
    await next.release();
  });

  it('row 54: the majority is lost: the holder is notified in time, nobody else holds, then it works again', {
    timeout: 90_000,
  }, async () => {
    await using subject = await Subject.start();
    const { cluster, leader, followers } = subject;
    const others = cluster.client();
    const [first, second] = [subject.locksOn(cluster.client()), subject.locksOn(others)];
    const seen = await firstRenewed((round) => witness(first, second, others, `members-${round}`, 3_000));
    let granted = false;
    seen.next.then(
      () => {
        granted = true;
      },
      () => {},
    );
    const killed = [leader, followers[0]];
    await Promise.all(killed.map(crash));
    await eventually('the holder is notified', () => seen.lostAt() !== null);
    // Longer than the lease that was granted.
    await sleep(2_500);
    expect(granted, 'a minority has granted a lock').toBe(false);
    await Promise.all(killed.map(({ server }) => server.start()));
    const next = await seen.next;
    expectLostInTime(seen, next);
    await next.hold.release();
  });

  it('rule 8: a cluster that was rebuilt from nothing is refused', {
    timeout: 60_000,
  }, async () => {
    await using rebuilt = await startEtcdCluster({ members: 1 });
    const store = etcdStore(rebuilt.client());
    // Far above what a cluster that has just been started gives.
    const wanted = request('rebuilt', { ttlMs: 5_000, fenceAbove: 1_000_000n });
    for (const wait of [false, true]) {
      await expect(store.claim({ ...wanted, wait })).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
      expect(await store.read('rebuilt')).toEqual([]);
    }
    await store.close();
  });
});
