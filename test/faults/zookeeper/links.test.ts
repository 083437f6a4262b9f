import type { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { createLocks, type Locks } from '../../../src/index.ts';
import type { Store } from '../../../src/store/store.ts';
import type { RawClient } from '../../../src/stores/zookeeper/client.ts';
import { zookeeperStore } from '../../../src/stores/zookeeper/index.ts';
import { permits, request } from '../../../src/testing/store-case.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { cleanups } from '../../support/hooks/cleanups.ts';
import { type Ensemble, startEnsemble } from '../../support/servers/zookeeper.ts';
import { later, until } from '../../support/waiting/eventually.ts';
import { firstRenewed, renewed } from '../../support/waiting/renewed.ts';
import { expectLostInTime, nodesOf, terms, witness } from './support/witness.ts';

/** Connections that fail between a client and a healthy ensemble. */
const SESSION_MS = 2_000;
/** For tests that do not wait for the end of a session. Outlasts a pause of the machine. */
const LONG_SESSION_MS = 12_000;
const CONNECTED = 3;
/** A client with retries repeats a request a second after the connection broke. */
const REPEATED_MS = 1_500;

// Nearly all of the time is spent waiting.
vi.setConfig({ maxConcurrency: 4 });
const atTheEnd = cleanups();
let ensemble: Ensemble;
let direct: RawClient;
beforeAll(async () => {
  ensemble = await startEnsemble({ maxSessionMs: LONG_SESSION_MS });
  atTheEnd(() => ensemble.stop());
  direct = ensemble.client({ sessionMs: LONG_SESSION_MS });
});

function locksOn(client: RawClient | (() => RawClient)): Locks {
  const locks = createLocks(zookeeperStore(client), { waitMs: 30_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

function storeOn(client: RawClient): Store {
  const store = zookeeperStore(client);
  atTheEnd(() => store.close());
  return store;
}

const others = (): Locks => locksOn(() => ensemble.client({ sessionMs: LONG_SESSION_MS }));

interface Proxied {
  readonly locks: Locks;
  readonly client: RawClient;
  readonly proxies: readonly FaultProxy[];
  every(fault: (proxy: FaultProxy) => void): void;
}

/** Locks over a connected client whose connections go through proxies, one for each member. */
async function proxied(options: { retries?: number; sessionMs?: number } = {}): Promise<Proxied> {
  const proxies = await Promise.all(ensemble.members.map((member) => startFaultProxy(member.port)));
  atTheEnd(async () => void (await Promise.all(proxies.map((proxy) => proxy.stop()))));
  const address = proxies.map((proxy) => `127.0.0.1:${proxy.port}`).join(',');
  const client = ensemble.client({ address, sessionMs: SESSION_MS, ...options });
  await until('not connected', () => client.getState().code === CONNECTED);
  return { locks: locksOn(client), client, proxies, every: (fault) => proxies.forEach(fault) };
}

/** The end of a title that the safety page quotes. */
const ENDS_BY_ITSELF = 'is lost by its own deadline, before another holds, and the process keeps running';

describe.concurrent('a link to ZooKeeper fails', () => {
  for (const way of ['both', 'toClient', 'toServer'] as const) {
    it(`row 56: ${way} dropped: a hold ${ENDS_BY_ITSELF}`, async () => {
      const { locks, every } = await proxied();
      const second = others();
      const seen = await firstRenewed((round) => witness(locks, second, direct, `swallow-${way}-${round}`));
      every((proxy) => proxy.drop(way));
      await until('the holder was not notified', () => seen.lostAt() !== null);
      // While its requests arrive, the client keeps its session alive, and the servers keep the
      // claim until the connection works again.
      if (way === 'toClient') every((proxy) => proxy.pass());
      const next = await seen.next;
      expectLostInTime(seen, next);
      every((proxy) => proxy.pass());
      expect(await next.hold.release()).toBe(true);
      const again = await locks.mutex(next.hold.name).acquire();
      expect(again.fence).toBeGreaterThan(next.hold.fence);
      expect(await again.release()).toBe(true);
    });
  }

  it('row 55: a release that waits for the next connection resolves to true', async () => {
    const { locks, client, every } = await proxied({ sessionMs: LONG_SESSION_MS });
    for (let round = 0; round < 3; round += 1) {
      const hold = await locks.mutex('between-two').acquire();
      every((proxy) => {
        proxy.refuse();
        proxy.cut();
      });
      await until('still connected', () => client.getState().code !== CONNECTED);
      const released = later(hold.release());
      await sleep(50);
      every((proxy) => proxy.pass());
      expect(await released).toBe(true);
      await until('its node stays', async () => (await nodesOf(direct, 'between-two')).length === 0);
    }
  });

  it('row 56: one member falls silent, and the session continues at another', async () => {
    const { locks, client, proxies, every } = await proxied({ sessionMs: LONG_SESSION_MS });
    // A session that moves to the store's next connection is trusted since then.
    const moved = whenConnected(client, async () => {});
    every((proxy) => proxy.cut());
    await moved;
    const hold = await locks.mutex('silent-member').acquire();
    const used = proxies.find((proxy) => proxy.connections > 0);
    used?.drop('both');
    await until(
      'the session stays at the silent member',
      () => proxies.some((proxy) => proxy !== used && proxy.connections > 0),
      30_000,
    );
    await renewed(hold);
    expect(await nodesOf(direct, 'silent-member')).toHaveLength(1);
    expect(await hold.release()).toBe(true);
    used?.pass();
  });

  it('row 56: a link that is cut and comes back costs no hold and no queue position', async () => {
    const { locks, every } = await proxied({ sessionMs: LONG_SESSION_MS });
    const [hold, blocker] = [await locks.mutex('cut').acquire(), await others().mutex('cut-queue').acquire()];
    const waiting = later(locks.mutex('cut-queue').acquire());
    await until('nobody waits', async () => (await nodesOf(direct, 'cut-queue')).length === 2);
    const before = [...(await nodesOf(direct, 'cut-queue'))].sort();
    for (let round = 0; round < 4; round += 1) {
      every((proxy) => proxy.cut());
      await sleep(500);
    }
    await renewed(hold);
    expect([...(await nodesOf(direct, 'cut-queue'))].sort()).toEqual(before);
    await blocker.release();
    const releasedAt = performance.now();
    expect((await waiting).fence).toBeGreaterThan(blocker.fence);
    // The waiter was woken: without that it asks again after 7.5 seconds at the earliest.
    expect(performance.now() - releasedAt).toBeLessThan(6_000);
    expect(await hold.release()).toBe(true);
  });

  it('row 56: a link that ends in the middle of an answer costs no hold', async () => {
    const { locks, client, every } = await proxied({ sessionMs: LONG_SESSION_MS });
    const hold = await locks.mutex('half').acquire();
    for (let round = 0; round < 3; round += 1) {
      every((proxy) => proxy.cutInside(6));
      client.exists('/locks', () => {});
      await sleep(700);
    }
    await renewed(hold);
    expect(await hold.release()).toBe(true);
  });

  for (const wait of [true, false]) {
    it(`row 55: a claim whose reply is lost is one claim, and is ours (wait: ${wait})`, async () => {
      const { locks, every } = await proxied({ sessionMs: LONG_SESSION_MS, retries: wait ? 0 : 3 });
      const name = `lost-claim-${wait}`;
      // The lock node exists, so that the claim is one request.
      await (await locks.mutex(name).acquire()).release();
      every((proxy) => proxy.holdReplies());
      const acquired = later(locks.mutex(name).acquire());
      await until('the claim did not arrive', async () => (await nodesOf(direct, name)).length === 1);
      every((proxy) => proxy.cut());
      every((proxy) => proxy.pass());
      const hold = await acquired;
      // By then, the client would have repeated what it repeats by itself.
      await sleep(REPEATED_MS);
      await until('an orphaned node stays', async () => (await nodesOf(direct, name)).length === 1);
      hold.assertHeld();
      expect(await hold.release()).toBe(true);
      await until('a node stays', async () => (await nodesOf(direct, name)).length === 0);
    });
  }

  it('row 55: a claim that was given up while its reply was lost leaves nothing behind', async () => {
    const { locks, every } = await proxied({ sessionMs: LONG_SESSION_MS });
    await (await locks.mutex('given-up').acquire()).release();
    every((proxy) => proxy.holdReplies());
    const reason = new Error('enough');
    const abort = new AbortController();
    const given = expect(locks.mutex('given-up').acquire({ signal: abort.signal })).rejects.toBe(reason);
    await until('the claim did not arrive', async () => (await nodesOf(direct, 'given-up')).length === 1);
    abort.abort(reason);
    await given;
    expect(await nodesOf(direct, 'given-up')).toHaveLength(1);
    every((proxy) => proxy.cut());
    every((proxy) => proxy.pass());
    await until('an orphaned node stays', async () => (await nodesOf(direct, 'given-up')).length === 0);
  });

  for (const how of ['answers late', 'is cut and comes back'] as const) {
    it(`claims that were given up before they were sent are never sent when the link ${how}`, async () => {
      const { client, every } = await proxied({ sessionMs: LONG_SESSION_MS });
      const root = `/given-up-${how.split(' ')[0]}`;
      const store = zookeeperStore(client, { root });
      atTheEnd(() => store.close());
      expect((await store.claim({ ...terms, name: 'first', id: 'me#0' })).granted).toBe(true);
      every((proxy) => proxy.holdReplies());
      // More than are sent at once. None of these locks has a node yet.
      const abort = new AbortController();
      const claims = Array.from({ length: 600 }, (_, n) =>
        store.claim({ ...terms, name: `job-${n}`, id: `me#${n}` }, abort.signal),
      );
      const ended = Promise.allSettled(claims);
      await sleep(200);
      abort.abort();
      if (how === 'is cut and comes back') every((proxy) => proxy.cut());
      every((proxy) => proxy.pass());
      expect((await ended).filter(({ status }) => status === 'fulfilled')).toEqual([]);
      expect((await store.claim({ ...terms, name: 'last', id: 'me#last' })).granted).toBe(true);
      await sleep(200);
      await until(
        'the last claim was not created',
        async () => (await nodesOf(direct, 'last', root)).length === 1,
      );
      expect([...(await nodesOf(direct, root.slice(1), ''))].sort()).toEqual(['first', 'last']);
    });
  }

  it('row 57: a release whose reply is lost has happened, and does not end the next hold', async () => {
    const { locks, every } = await proxied({ sessionMs: LONG_SESSION_MS });
    const hold = await locks.mutex('lost-delete').acquire();
    every((proxy) => proxy.holdReplies());
    const released = hold.release();
    const other = await others().mutex('lost-delete').acquire();
    every((proxy) => proxy.cut());
    every((proxy) => proxy.pass());
    expect(await released).toBe(true);
    expect(await hold.release()).toBe(false);
    other.assertHeld();
    await until('not one is left', async () => (await nodesOf(direct, 'lost-delete')).length === 1);
    expect(await other.release()).toBe(true);
  });

  it('row 57: a claim that is made again after a lost withdrawal has a node while it holds', async () => {
    const { client, every } = await proxied({ sessionMs: LONG_SESSION_MS });
    const [store, other] = [storeOn(client), storeOn(ensemble.client({ sessionMs: LONG_SESSION_MS }))];
    const name = 'withdrawn';
    const present = request(name, { mode: permits(1, 3) });
    expect((await other.claim(present)).granted).toBe(true);
    const dropped = beforeRemoval(client, () => every((proxy) => proxy.drop('toServer')));
    const wanted = request(name, { wait: true });
    const refused = later(store.claim(wanted));
    // The claim is refused, because its mode differs, and its removal does not arrive.
    await dropped;
    expect(await other.release(present)).toBe(true);
    const again = whenConnected(client, () => store.claim(wanted));
    every((proxy) => proxy.cut());
    every((proxy) => proxy.pass());
    await expect(refused).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
    expect((await again).granted).toBe(true);
    expect(await store.renew(wanted, { ttlMs: wanted.ttlMs })).toMatchObject({ held: true });
    expect((await other.claim(request(name))).granted).toBe(false);
    expect(await store.release(wanted)).toBe(true);
  });

  it('row 57: a release that comes while the one before is made good resolves to true', async () => {
    const { client, every } = await proxied({ sessionMs: LONG_SESSION_MS });
    const store = storeOn(client);
    const wanted = request('second-try');
    expect((await store.claim(wanted)).granted).toBe(true);
    every((proxy) => proxy.refuse());
    every((proxy) => proxy.cut());
    await until('still connected', () => client.getState().code !== CONNECTED);
    const first = store.release(wanted, AbortSignal.abort());
    await expect(first).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    const second = beforeRemoval(client, () => store.release(wanted));
    every((proxy) => proxy.pass());
    expect(await second).toBe(true);
    expect(await nodesOf(client, wanted.name)).toEqual([]);
  });

  it('row 57: a session that another program ends costs the hold at once', async () => {
    const { locks, client } = await proxied({ sessionMs: LONG_SESSION_MS });
    const hold = await locks.mutex('ended').acquire();
    const before = client.getSessionId();
    await endSession(client);
    const endedAt = performance.now();
    await until('the holder was not notified', () => hold.signal.aborted);
    // Its own deadline ends the hold after eight seconds at the earliest.
    expect(performance.now() - endedAt).toBeLessThan(5_000);
    expect(hold.signal.reason).toMatchObject({ code: 'HOLD_LOST', how: 'session' });
    const again = await locks.mutex('ended').acquire();
    expect(again.fence).toBeGreaterThan(hold.fence);
    const old = before.readBigUInt64BE().toString(16);
    await until('the claim is not of another session', async () => {
      const nodes = await nodesOf(direct, 'ended');
      return nodes.length === 1 && nodes[0]?.includes(old) === false;
    });
    expect(await again.release()).toBe(true);
  });

  it('row 57: a waiter whose session is ended keeps waiting in the next session', async () => {
    const { locks, client } = await proxied({ sessionMs: LONG_SESSION_MS });
    const blocker = await others().mutex('ended-queue').acquire();
    const waiting = later(locks.mutex('ended-queue').acquire());
    await until('nobody waits', async () => (await nodesOf(direct, 'ended-queue')).length === 2);
    await endSession(client);
    const isBack = async (): Promise<boolean> => {
      const nodes = await nodesOf(direct, 'ended-queue');
      const old = client.getSessionId().readBigUInt64BE().toString(16);
      return nodes.length === 2 && !nodes.some((node) => node.includes(old));
    };
    await until('the claim is not in the queue again', isBack);
    await blocker.release();
    const releasedAt = performance.now();
    await (await waiting).release();
    expect(performance.now() - releasedAt).toBeLessThan(6_000);
  });

  it('a client that its owner closes ends the holds, and their holders are notified', async () => {
    const client = ensemble.client({ sessionMs: LONG_SESSION_MS });
    const locks = locksOn(client);
    const hold = await locks.mutex('closed-client').acquire();
    client.close();
    await until('the holder was not notified', () => hold.signal.aborted, 6_000);
    await expect(locks.mutex('closed-client').tryAcquire()).rejects.toMatchObject({
      code: 'STORE',
      applied: 'no',
    });
  });
});

/** Calls back right before the client's next removal of a node is sent. Resolves to the result. */
function beforeRemoval<T>(client: RawClient, callback: () => T | Promise<T>): Promise<T> {
  return new Promise((resolve) => {
    const remove = client.remove;
    client.remove = (path, answer) => {
      client.remove = remove;
      resolve(callback());
      client.remove(path, answer);
    };
  });
}

/** Calls back when the client is connected again, before its stores learn that. Resolves to the result. */
function whenConnected<T>(client: RawClient, callback: () => Promise<T>): Promise<T> {
  return new Promise((resolve) => {
    const onState = ({ code }: { readonly code: number }): void => {
      if (code !== CONNECTED) return;
      client.removeListener('state', onState);
      resolve(callback());
    };
    (client as unknown as EventEmitter).prependListener('state', onState);
  });
}

/** Another client takes over the session, and closes it. */
async function endSession(client: RawClient): Promise<void> {
  const { getSessionPassword } = client as unknown as { getSessionPassword(): Buffer };
  const other = ensemble.client({
    sessionMs: LONG_SESSION_MS,
    session: { id: client.getSessionId(), password: getSessionPassword.call(client) },
  });
  await until('not connected', () => other.getState().code === CONNECTED);
  other.close();
}
