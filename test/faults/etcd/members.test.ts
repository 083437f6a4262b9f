import { setTimeout as sleep } from 'node:timers/promises';
import type { Etcd3 } from 'etcd3';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createLocks, type Locks } from '../../../src/index.ts';
import { etcdStore } from '../../../src/stores/etcd/index.ts';
import { later } from '../../support/patience.ts';
import { renewed } from '../../support/renewed.ts';
import { crash } from '../../support/servers/crash.ts';
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
  onTestFinished(() => member.server.kill('SIGCONT'));
  member.server.kill('SIGSTOP');
  await sleep(ms);
  member.server.kill('SIGCONT');
}

let count = 0;
const freshName = (): string => `members-${count++}`;

describe('a member of etcd fails', () => {
  it('row 50: the leader sleeps longer than the TTL, and holders talk to it and to a follower', {
    timeout: 90_000,
  }, async () => {
    const { leader, followers } = await parts();
    const others = clientOf(followers);
    const holders = [clientOf([leader]), clientOf([followers[0]])];
    const all = await Promise.all(
      holders.map((client) => witness(locksOn(client), locksOn(others), others, freshName(), 4_000)),
    );
    await asleep(leader, 6_500);
    await sleep(2_000);
    for (const seen of all) {
      // The lease lives on at the next leader or it does not; in both cases the holder knows before anybody else can hold. Kept: then it is ours until we give it up.
      if (seen.lostAt() === null) expect(await seen.hold.release()).toBe(true);
      const next = await seen.next;
      if (seen.lostAt() !== null) expectToldAfterSleep(seen, next, 5_000);
      expect(next.hold.fence).toBeGreaterThan(seen.hold.fence);
      await next.hold.release();
    }
  });

  it('row 51: a leader that slept answers for leases it no longer rules: its word does not prolong a hold', {
    timeout: 90_000,
  }, async () => {
    const { leader, followers } = await parts();
    const others = clientOf(followers);
    const seen = await witness(locksOn(clientOf([leader])), locksOn(others), others, freshName(), 6_500);
    // Long enough for another leader, short enough that answers to the keep-alives that wait in its socket come in time to be believed.
    await asleep(leader, 4_000);
    const until = performance.now() + 7_000;
    while (performance.now() < until && seen.lostAt() === null) await sleep(50);
    if (seen.lostAt() === null) expect(await seen.hold.release()).toBe(true);
    const next = await seen.next;
    if (seen.lostAt() !== null) expectToldAfterSleep(seen, next, 7_000);
    await next.hold.release();
  });

  it('row 54: a leader that is killed costs no hold and no waiter', { timeout: 60_000 }, async () => {
    const { leader } = await parts();
    const [first, second] = [locksOn(cluster.client()), locksOn(cluster.client())];
    const name = freshName();
    const hold = await first.mutex(name).acquire({ ttlMs: 10_000 });
    const waiting = later(second.mutex(name).acquire());
    await expect.poll(async () => (await first.inspect(name)).waiters.length).toBe(1);
    const { back } = await crash(leader.server);
    // By the next leader.
    await renewed(hold);
    expect(await hold.release()).toBe(true);
    const next = await waiting;
    expect(next.fence).toBeGreaterThan(hold.fence);
    await back();
    expect(await next.release()).toBe(true);
  });

  it('row 54: a waiter on the member that dies is woken all the same', { timeout: 60_000 }, async () => {
    const { followers } = await parts();
    const [lost, left] = followers;
    const name = freshName();
    const locks = locksOn(clientOf([left]));
    const hold = await locks.mutex(name).acquire({ ttlMs: 20_000 });
    const waiting = later(
      locksOn(clientOf([lost, left]))
        .mutex(name)
        .acquire(),
    );
    await expect.poll(async () => (await locks.inspect(name)).waiters.length).toBe(1);
    // And listens.
    await sleep(300);
    const { back } = await crash(lost.server);
    await hold.release();
    const startedAt = performance.now();
    const next = await waiting;
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    await back();
    await next.release();
  });

  it('row 54: the majority is lost: the holder is told in time, nobody else holds, and it goes on when the majority is back', {
    timeout: 90_000,
  }, async () => {
    const { leader, followers } = await parts();
    const others = cluster.client();
    const seen = await witness(locksOn(cluster.client()), locksOn(others), others, freshName(), 3_000);
    let granted = false;
    const first = seen.next.then(() => {
      granted = true;
    });
    first.catch(() => {});
    const killed = [await crash(leader.server), await crash(followers[0].server)];
    await expect.poll(() => seen.lostAt(), { message: 'the holder was not told' }).not.toBeNull();
    // Longer than what was granted lasts.
    await sleep(2_500);
    expect(granted, 'a minority has granted a lock').toBe(false);
    await Promise.all(killed.map(({ back }) => back()));
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
