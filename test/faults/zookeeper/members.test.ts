import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createLocks, type Locks } from '../../../src/index.ts';
import type { Store } from '../../../src/store/store.ts';
import type { RawClient } from '../../../src/stores/zookeeper/client.ts';
import { zookeeperStore } from '../../../src/stores/zookeeper/index.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import type { Member } from '../../../src/torture/servers/zookeeper.ts';
import { followersOf } from '../../support/faults/followers.ts';
import { type Ensemble, startEnsemble } from '../../support/servers/zookeeper.ts';
import { later, renewals, until } from '../../support/waiting/eventually.ts';
import { firstRenewed } from '../../support/waiting/renewed.ts';
import { expectLostInTime, nodesOf, terms, witness } from './support/witness.ts';

/**
 * Members that die, sleep, are cut off from their leader and come back. Most of the time is spent
 * waiting, so there are two ensembles at once. On each of them the tests run one after the other.
 */
vi.setConfig({ testTimeout: 90_000 });
const CONNECTED = 3;
const TICK_MS = 200;
const SYNC_LIMIT = 12;
/** How long a member that is cut off from its leader keeps answering reads and pings. */
const SYNC_MS = SYNC_LIMIT * TICK_MS;
/** Sessions end sooner than that. */
const SESSION_MS = 1_600;
/**
 * Outlasts an election, even on a busy machine. The tests check whether an election costs a hold,
 * not how long it takes.
 */
const LONG_SESSION_MS = 40_000;

const start = (members: number): Promise<Ensemble> =>
  startEnsemble({
    ...{ members, isDivisible: true },
    ...{ tickMs: TICK_MS, syncLimit: SYNC_LIMIT, maxSessionMs: LONG_SESSION_MS },
  });
let ensembles: readonly Ensemble[] = [];
beforeAll(async () => {
  ensembles = await Promise.all([3, 3, 1].map(start));
});
afterAll(async () => void (await Promise.all(ensembles.map((ensemble) => ensemble.stop()))));

/** What one test opens and breaks. Disposing closes and repairs all of it. */
class Scene implements AsyncDisposable {
  readonly #undos: (() => Promise<unknown> | unknown)[] = [];
  readonly ensemble: Ensemble;
  readonly leader: Member;
  readonly followers: readonly [Member, Member];

  static async on(index: number): Promise<Scene> {
    const ensemble = ensembles[index];
    if (ensemble === undefined) throw new Error(`there is no ensemble ${index}`);
    await ensemble.serving();
    return new Scene(ensemble, await ensemble.leader());
  }

  constructor(ensemble: Ensemble, leader: Member) {
    this.ensemble = ensemble;
    this.leader = leader;
    this.followers = followersOf(ensemble.members, leader);
  }

  clientOf(members: readonly Member[], sessionMs = 5_000): RawClient {
    return this.ensemble.client({ address: members.map((member) => member.address).join(','), sessionMs });
  }

  /** Locks of a short session at this member, and locks and a client at the other members. */
  besides(alone: Member): { first: Locks; second: Locks; healthy: RawClient } {
    const others = this.ensemble.members.filter((member) => member !== alone);
    return {
      first: this.locksOn(this.clientOf([alone], SESSION_MS)),
      second: this.locksOn(this.clientOf(others)),
      healthy: this.clientOf(others),
    };
  }

  storeOn(client: RawClient): Store {
    const store = zookeeperStore(client);
    this.#undos.push(() => store.close());
    return store;
  }

  locksOn(client: RawClient, renewEveryMs?: number): Locks {
    const locks = createLocks(zookeeperStore(client), { waitMs: 60_000, renewEveryMs });
    this.#undos.push(() => locks.close({ drainMs: 0 }));
    return locks;
  }

  async detourTo(member: Member): Promise<FaultProxy> {
    const detour = await startFaultProxy(member.port);
    this.#undos.push(() => detour.stop());
    return detour;
  }

  /** Pauses the member's process. */
  stop(member: Member): void {
    this.#undos.push(() => member.server.kill('SIGCONT'));
    member.server.kill('SIGSTOP');
  }

  async asleep(member: Member, ms: number): Promise<void> {
    this.stop(member);
    await sleep(ms);
    member.server.kill('SIGCONT');
  }

  /** Cuts the member off from the leader, but not from clients. */
  cutOff(follower: Member): { heal(): void } {
    for (const link of follower.links) link.drop('both');
    const heal = (): void => follower.links.forEach((link) => void link.pass());
    this.#undos.push(heal);
    return { heal };
  }

  /** Kills the member's process. `back` starts it again. */
  async crash({ server }: Member): Promise<{ back(): Promise<void> }> {
    let started: Promise<void> | null = null;
    const back = (): Promise<void> => {
      started ??= server.start();
      return started;
    };
    this.#undos.push(back);
    server.kill('SIGKILL');
    await server.exited();
    return { back };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const undo of this.#undos.reverse()) await undo();
  }
}

let count = 0;
const freshName = (): string => `members-${count++}`;

describe.concurrent('a member of ZooKeeper is paused or cut off', () => {
  it.sequential('row 56: a member is cut off and replies: its reply does not prolong a hold', async () => {
    await using scene = await Scene.on(0);
    const [alone] = scene.followers;
    const { first, second, healthy } = scene.besides(alone);
    const seen = await firstRenewed(() => witness(first, second, healthy, freshName()));
    const cut = scene.cutOff(alone);
    const next = await seen.next;
    expectLostInTime(seen, next);
    cut.heal();
    await next.hold.release();
  });

  it.sequential('row 56: member paused, client still connected: the hold is lost in time', async () => {
    await using scene = await Scene.on(0);
    const [alone] = scene.followers;
    const bare = scene.clientOf([alone], SESSION_MS);
    const { first, second, healthy } = scene.besides(alone);
    await until('not connected', () => bare.getState().code === CONNECTED);
    const seen = await firstRenewed(() => witness(first, second, healthy, freshName()));
    let stateAtLoss = -1;
    seen.hold.signal.addEventListener('abort', () => {
      stateAtLoss = bare.getState().code;
    });
    scene.stop(alone);
    const next = await seen.next;
    expectLostInTime(seen, next);
    expect(stateAtLoss).toBe(CONNECTED);
    alone.server.kill('SIGCONT');
    await next.hold.release();
  });

  it.sequential('row 56: the leader is paused for longer than the session of two holders', async () => {
    await using scene = await Scene.on(0);
    const { leader, followers } = scene;
    const all = await Promise.all(
      [leader, followers[0]].map((member) =>
        witness(
          scene.locksOn(scene.clientOf([member], SESSION_MS)),
          scene.locksOn(scene.clientOf(followers)),
          scene.clientOf(followers),
          freshName(),
        ),
      ),
    );
    await scene.asleep(leader, SYNC_MS * 1.5);
    await sleep(1_000);
    for (const seen of all) {
      // The session lives on at the next leader, or it ends. In both cases the holder is notified
      // before another can hold.
      if (seen.lostAt() === null) expect(await seen.hold.release()).toBe(true);
      const next = await seen.next;
      if (seen.lostAt() !== null) expectLostInTime(seen, next);
      expect(next.hold.fence).toBeGreaterThan(seen.hold.fence);
      await next.hold.release();
    }
  });

  it.sequential('row 56: the leader resumes before it is replaced, when sessions have expired', async () => {
    await using scene = await Scene.on(0);
    const { leader, followers } = scene;
    const [first, second] = [
      scene.locksOn(scene.clientOf([followers[0]], SESSION_MS)),
      scene.locksOn(scene.clientOf(followers)),
    ];
    const seen = await firstRenewed(() => witness(first, second, scene.clientOf(followers), freshName()));
    await scene.asleep(leader, SYNC_MS * 0.8);
    await sleep(1_500);
    if (seen.lostAt() === null) expect(await seen.hold.release()).toBe(true);
    const next = await seen.next;
    if (seen.lostAt() !== null) expectLostInTime(seen, next);
    await next.hold.release();
  });
});

describe.concurrent('a member of ZooKeeper lags behind or is killed', () => {
  it.sequential('row 57: a member that lags behind does not grant what was taken away', async () => {
    await using scene = await Scene.on(1);
    const { leader, followers } = scene;
    const [lagging, other] = followers;
    const name = freshName();
    const [first, second, third] = [
      scene.storeOn(scene.clientOf([leader, other], LONG_SESSION_MS)),
      scene.storeOn(scene.clientOf([lagging], LONG_SESSION_MS)),
      scene.storeOn(scene.clientOf([leader, other], LONG_SESSION_MS)),
    ];
    const look = scene.clientOf([lagging], LONG_SESSION_MS);
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
    // The lagging member knows of the release, and will not learn of later changes.
    await until('the release did not arrive', async () => (await nodesOf(look, name)).length === 2);
    const cut = scene.cutOff(lagging);
    expect(await first.evict(waiter)).toBe(true);
    // Its member may be a moment behind the one that evicted, and then refuses once.
    await until('the last claim is not granted', async () => (await third.claim(last)).granted);
    expect(await nodesOf(look, name), 'the member is not behind').toHaveLength(2);
    const asked = second.claim(waiter).then(
      ({ granted }) => granted,
      () => 'unknown',
    );
    expect(await Promise.race([asked, sleep(2_000)])).not.toBe(true);
    cut.heal();
    await scene.ensemble.serving();
    // However the other claim has ended, the last one holds alone.
    expect(await asked).not.toBe(true);
    expect((await third.renew(last, { ttlMs: 60_000 })).held).toBe(true);
  });

  for (const which of ['the leader', 'the member that the holder talks to'] as const) {
    it.sequential(`row 57: ${which} is killed, which costs no hold and no waiter`, async () => {
      await using scene = await Scene.on(1);
      const { leader, followers } = scene;
      const killed = which === 'the leader' ? leader : followers[0];
      const rest = scene.ensemble.members.filter((member) => member !== killed);
      // Until the lock is held, only the member that will be killed can be reached.
      const detours = await Promise.all(rest.map((member) => scene.detourTo(member)));
      for (const detour of detours) detour.refuse();
      const address = [killed.address, ...detours.map((detour) => `127.0.0.1:${detour.port}`)].join(',');
      const holder = scene.ensemble.client({ sessionMs: LONG_SESSION_MS, address });
      const name = freshName();
      const locks = scene.locksOn(holder, 500);
      const hold = await locks.mutex(name).acquire();
      for (const detour of detours) detour.pass();
      const waiting = later(
        scene.locksOn(scene.clientOf(scene.ensemble.members, LONG_SESSION_MS)).mutex(name).acquire(),
      );
      await until('nobody waits', async () => (await nodesOf(holder, name)).length === 2);
      const { back } = await scene.crash(killed);
      // The other members notice at once, because their connections end, and serve again when they
      // have elected another leader. The holder's next renewal goes through that leader.
      await scene.ensemble.leader();
      await scene.ensemble.serving(2);
      await renewals(locks, 1);
      hold.assertHeld();
      expect(await hold.release()).toBe(true);
      const next = await waiting;
      expect(next.fence).toBeGreaterThan(hold.fence);
      await back();
      expect(await next.release()).toBe(true);
    });
  }

  // The safety page quotes the end of this title.
  const inMinority = 'nobody else holds, and it works again when the majority is back';
  it.sequential(`row 57: in a minority ${inMinority}`, async () => {
    await using scene = await Scene.on(1);
    const { leader, followers } = scene;
    const { members } = scene.ensemble;
    const first = scene.locksOn(scene.clientOf(members, SESSION_MS));
    const second = scene.locksOn(scene.clientOf(members));
    const look = scene.clientOf(members);
    const seen = await firstRenewed(() => witness(first, second, look, freshName()));
    let granted = false;
    seen.next.then(
      () => {
        granted = true;
      },
      () => {},
    );
    // Both at once: with one more, the member that is left has a majority.
    const killed = await Promise.all([leader, followers[0]].map((member) => scene.crash(member)));
    await until('the holder was not notified', () => seen.lostAt() !== null);
    await sleep(SESSION_MS);
    expect(granted, 'a minority has granted a lock').toBe(false);
    await Promise.all(killed.map(({ back }) => back()));
    const next = await seen.next;
    expect(seen.lostAt() ?? 0).toBeLessThanOrEqual(next.at);
    expect(next.hold.fence).toBeGreaterThan(seen.hold.fence);
    await next.hold.release();
  });

  it.sequential('rule 8: an ensemble that was rebuilt from nothing is refused', async () => {
    const [, , rebuilt] = ensembles;
    const store = zookeeperStore(() => rebuilt?.client() ?? expect.fail('the ensemble was not started'));
    for (const wait of [false, true]) {
      const request = { ...terms, name: 'rebuilt', id: 'me#1', fenceAbove: 10n ** 9n, wait };
      await expect(store.claim(request)).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
      expect(await store.read('rebuilt')).toEqual([]);
    }
    await store.close();
  });
});
