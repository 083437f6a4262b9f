import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createLocks, type Locks } from '../../../src/index.ts';
import type { Store } from '../../../src/store/store.ts';
import type { RawClient } from '../../../src/stores/zookeeper/client.ts';
import { zookeeperStore } from '../../../src/stores/zookeeper/index.ts';
import { startFaultProxy } from '../../support/fault-proxy.ts';
import { later } from '../../support/patience.ts';
import { firstRenewed, renewed } from '../../support/renewed.ts';
import { crash } from '../../support/servers/crash.ts';
import { type Ensemble, type Member, startEnsemble } from '../../support/servers/zookeeper.ts';
import { expectToldInTime, nodesOf, until, witness } from './witness.ts';

/** Members that die, sleep, are cut off from their leader and come back. One after the other on one ensemble. */
const CONNECTED = 3;
/** A member that is cut off from its leader answers reads and pings for twelve ticks more; sessions are shorter. */
const SESSION_MS = 2_000;
/** Outlasts an election, also on a machine where something else keeps both cores busy: what is asked is whether it costs a hold, not how long it takes. */
const LONG_SESSION_MS = 40_000;

let ensemble: Ensemble;
beforeAll(async () => {
  ensemble = await startEnsemble({
    ...{ isDivisible: true, tickMs: 250, syncLimit: 12 },
    maxSessionMs: LONG_SESSION_MS,
  });
});
afterAll(() => ensemble?.stop());

const clientOf = (members: readonly Member[], sessionMs = 5_000): RawClient =>
  ensemble.client({ address: members.map((member) => member.address).join(','), sessionMs });

function storeOn(client: RawClient): Store {
  const store = zookeeperStore(client);
  onTestFinished(() => store.close());
  return store;
}

function locksOn(client: RawClient): Locks {
  const locks = createLocks(zookeeperStore(client), { waitMs: 60_000 });
  onTestFinished(() => locks.close({ drainMs: 0 }));
  return locks;
}

async function parts(): Promise<{ leader: Member; followers: [Member, Member] }> {
  await ensemble.serving();
  const leader = await ensemble.leader();
  const [a, b] = ensemble.members.filter((member) => member !== leader);
  if (a === undefined || b === undefined) throw new Error('three members are needed');
  return { leader, followers: [a, b] };
}

/** Stops the member for a while, as a paused machine is. */
async function asleep(member: Member, ms: number): Promise<void> {
  onTestFinished(() => member.server.kill('SIGCONT'));
  member.server.kill('SIGSTOP');
  await sleep(ms);
  member.server.kill('SIGCONT');
}

/** Cut off from the leader, but not from clients. */
function cutOff(follower: Member): { heal(): void } {
  for (const link of follower.links) link.drop('both');
  const heal = (): void => follower.links.forEach((link) => void link.pass());
  onTestFinished(heal);
  return { heal };
}

let count = 0;
const freshName = (): string => `members-${count++}`;
const terms = { mode: { kind: 'exclusive' }, ttlMs: 60_000, note: '', fenceAbove: 0n } as const;

describe('a member of ZooKeeper fails', () => {
  it('row 56: a member that is cut off from its leader goes on answering: its word does not prolong a hold', {
    timeout: 60_000,
  }, async () => {
    const { leader, followers } = await parts();
    const [alone, other] = followers;
    const client = clientOf([alone], SESSION_MS);
    const healthy = clientOf([leader, other]);
    const [first, second] = [locksOn(client), locksOn(clientOf([leader, other]))];
    const seen = await firstRenewed(() => witness(first, second, healthy, freshName()));
    const cut = cutOff(alone);
    const next = await seen.next;
    expectToldInTime(seen, next);
    cut.heal();
    await next.hold.release();
  });

  it('row 56: the member sleeps, the client says connected, and the holder knows better', {
    timeout: 60_000,
  }, async () => {
    const { leader, followers } = await parts();
    const [alone, other] = followers;
    const client = clientOf([alone], SESSION_MS);
    const bare = clientOf([alone], SESSION_MS);
    const healthy = clientOf([leader, other]);
    const seen = await witness(locksOn(client), locksOn(clientOf([leader, other])), healthy, freshName());
    await until('not connected', () => bare.getState().code === CONNECTED);
    let stateAtLoss = -1;
    seen.hold.signal.addEventListener('abort', () => {
      stateAtLoss = bare.getState().code;
    });
    onTestFinished(() => alone.server.kill('SIGCONT'));
    alone.server.kill('SIGSTOP');
    const next = await seen.next;
    expectToldInTime(seen, next);
    expect(stateAtLoss).toBe(CONNECTED);
    alone.server.kill('SIGCONT');
    await next.hold.release();
  });

  it('row 56: the leader sleeps longer than the session, and holders talk to it and to a follower', {
    timeout: 90_000,
  }, async () => {
    const { leader, followers } = await parts();
    const all = await Promise.all(
      [leader, followers[0]].map((member) =>
        witness(
          locksOn(clientOf([member], SESSION_MS)),
          locksOn(clientOf(followers)),
          clientOf(followers),
          freshName(),
        ),
      ),
    );
    await asleep(leader, 4_500);
    await sleep(1_000);
    for (const seen of all) {
      // The session lives on at the next leader or it does not; in both cases the holder knows before anybody else can hold.
      if (seen.lostAt() === null) expect(await seen.hold.release()).toBe(true);
      const next = await seen.next;
      if (seen.lostAt() !== null) expectToldInTime(seen, next);
      expect(next.hold.fence).toBeGreaterThan(seen.hold.fence);
      await next.hold.release();
    }
  });

  it('row 56: the leader sleeps for less than it takes to replace it, and wakes when sessions are over', {
    timeout: 60_000,
  }, async () => {
    const { leader, followers } = await parts();
    const seen = await witness(
      locksOn(clientOf([followers[0]], SESSION_MS)),
      locksOn(clientOf(followers)),
      clientOf(followers),
      freshName(),
    );
    await sleep(1_000);
    await asleep(leader, 2_400);
    await sleep(1_500);
    if (seen.lostAt() === null) expect(await seen.hold.release()).toBe(true);
    const next = await seen.next;
    if (seen.lostAt() !== null) expectToldInTime(seen, next);
    await next.hold.release();
  });

  it('row 57: a member that lags behind does not grant what was taken away: evicted, then asked through it', {
    timeout: 60_000,
  }, async () => {
    const { leader, followers } = await parts();
    const [lagging, other] = followers;
    const name = freshName();
    const [first, second, third] = [
      storeOn(clientOf([leader, other], LONG_SESSION_MS)),
      storeOn(clientOf([lagging], LONG_SESSION_MS)),
      storeOn(clientOf([leader, other], LONG_SESSION_MS)),
    ];
    const look = clientOf([lagging], LONG_SESSION_MS);
    const requests = ['first#1', 'second#1', 'third#1'].map((id) => ({ name, id, ...terms, wait: true }));
    const [holder, waiter, last] = requests as [
      (typeof requests)[0],
      (typeof requests)[0],
      (typeof requests)[0],
    ];
    expect((await first.claim(holder)).granted).toBe(true);
    expect((await second.claim(waiter)).granted).toBe(false);
    expect((await third.claim(last)).granted).toBe(false);
    await first.release(holder);
    // The lagging member has seen the release, and will not see what comes after it.
    await until('the release did not arrive', async () => (await nodesOf(look, name)).length === 2);
    const cut = cutOff(lagging);
    expect(await first.evict(waiter)).toBe(true);
    expect((await third.claim(last)).granted).toBe(true);
    expect(await nodesOf(look, name), 'the member is not behind').toHaveLength(2);
    const asked = second.claim(waiter).then(
      ({ granted }) => granted,
      () => 'unknown',
    );
    expect(await Promise.race([asked, sleep(2_000)])).not.toBe(true);
    cut.heal();
    await ensemble.serving();
    // Whatever it has come to by then, the last one holds alone.
    expect(await asked).not.toBe(true);
    expect((await third.renew(last, { ttlMs: 60_000 })).held).toBe(true);
  });

  for (const which of ['the leader', 'the member that the holder talks to'] as const) {
    it(`row 57: ${which} is killed, which costs no hold and no waiter`, { timeout: 60_000 }, async () => {
      const { leader, followers } = await parts();
      const killed = which === 'the leader' ? leader : followers[0];
      const rest = ensemble.members.filter((member) => member !== killed);
      // Only the way to the member that dies is open until the lock is held.
      const detours = await Promise.all(rest.map((member) => startFaultProxy(member.port)));
      onTestFinished(async () => void (await Promise.all(detours.map((detour) => detour.stop()))));
      for (const detour of detours) detour.refuse();
      const address = [killed.address, ...detours.map((detour) => `127.0.0.1:${detour.port}`)].join(',');
      const holder = ensemble.client({ sessionMs: LONG_SESSION_MS, address });
      const name = freshName();
      const hold = await locksOn(holder).mutex(name).acquire();
      for (const detour of detours) detour.pass();
      const waiting = later(locksOn(clientOf(ensemble.members, LONG_SESSION_MS)).mutex(name).acquire());
      await until('nobody waits', async () => (await nodesOf(holder, name)).length === 2);
      const { back } = await crash(killed.server);
      // They miss it at once, since its connections end, and serve again when they have elected another leader. The holder is renewed by then.
      await sleep(4_000);
      await ensemble.serving(2);
      await renewed(hold);
      hold.assertHeld();
      expect(await hold.release()).toBe(true);
      const next = await waiting;
      expect(next.fence).toBeGreaterThan(hold.fence);
      await back();
      expect(await next.release()).toBe(true);
    });
  }

  it('row 57: the majority is lost: the holder is told in time, nobody else holds, and it goes on when the majority is back', {
    timeout: 90_000,
  }, async () => {
    const { leader, followers } = await parts();
    const seen = await witness(
      locksOn(clientOf(ensemble.members, SESSION_MS)),
      locksOn(clientOf(ensemble.members)),
      clientOf(ensemble.members),
      freshName(),
    );
    let granted = false;
    const first = seen.next.then(() => {
      granted = true;
    });
    first.catch(() => {});
    const killed = [await crash(leader.server), await crash(followers[0].server)];
    await until('the holder was not told', () => seen.lostAt() !== null);
    await sleep(SESSION_MS);
    expect(granted, 'a minority has granted a lock').toBe(false);
    await Promise.all(killed.map(({ back }) => back()));
    const next = await seen.next;
    expect(seen.lostAt() ?? 0).toBeLessThanOrEqual(next.at);
    expect(next.hold.fence).toBeGreaterThan(seen.hold.fence);
    await next.hold.release();
  });

  it('rule 8: an ensemble that was rebuilt from nothing is refused, not believed', {
    timeout: 60_000,
  }, async () => {
    const rebuilt = await startEnsemble({ members: 1 });
    onTestFinished(() => rebuilt.stop());
    const store = storeOn(rebuilt.client());
    for (const wait of [false, true]) {
      const request = { ...terms, name: 'rebuilt', id: 'me#1', fenceAbove: 10n ** 9n, wait };
      await expect(store.claim(request)).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
      expect(await store.read('rebuilt')).toEqual([]);
    }
  });
});
