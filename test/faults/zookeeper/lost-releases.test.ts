import type { EventEmitter } from 'node:events';
import zookeeper from 'node-zookeeper-client';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Store } from '../../../src/store/store.ts';
import type { RawClient } from '../../../src/stores/zookeeper/client.ts';
import { zookeeperStore } from '../../../src/stores/zookeeper/index.ts';
import { request } from '../../../src/testing/store-case.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { cleanups } from '../../support/hooks/cleanups.ts';
import { type Ensemble, startEnsemble } from '../../support/servers/zookeeper.ts';
import { later, until } from '../../support/waiting/eventually.ts';
import { nodesOf } from './support/witness.ts';

/** Releases that do not get through to a healthy server, or whose reply is lost. */
const SESSION_MS = 12_000;
const CONNECTED = 3;
const { ACL, Id, Permission } = zookeeper;

const atTheEnd = cleanups();
let ensemble: Ensemble;
let direct: RawClient;
beforeAll(async () => {
  ensemble = await startEnsemble({ members: 1, maxSessionMs: SESSION_MS });
  atTheEnd(() => ensemble.stop());
  direct = ensemble.client({ sessionMs: SESSION_MS });
});

function storeOn(client: RawClient): Store {
  const store = zookeeperStore(client);
  atTheEnd(() => store.close());
  return store;
}

const listenersOf = (client: RawClient): number => (client as unknown as EventEmitter).listenerCount('state');

/** A store over a connected client, whose connection goes through a proxy. */
async function openLink(): Promise<{ client: RawClient; proxy: FaultProxy; store: Store }> {
  const proxy = await startFaultProxy(ensemble.members[0]?.port ?? 0);
  atTheEnd(() => proxy.stop());
  const client = ensemble.client({ address: `127.0.0.1:${proxy.port}`, sessionMs: SESSION_MS });
  await until('not connected', () => client.getState().code === CONNECTED);
  return { client, proxy, store: storeOn(client) };
}

describe.concurrent('a link to ZooKeeper fails during a release', () => {
  it('row 57: a release that did not arrive is sent again when the link is back', async () => {
    const { proxy, store } = await openLink();
    const ref = { name: 'made-good', id: 'me#1' };
    expect((await store.claim(request(ref.name, { id: ref.id, ttlMs: 1_000 }))).granted).toBe(true);
    proxy.drop('both');
    await expect(store.release(ref)).rejects.toMatchObject({ code: 'STORE' });
    expect(await nodesOf(direct, ref.name)).toHaveLength(1);
    proxy.pass();
    await until('the node stays', async () => (await nodesOf(direct, ref.name)).length === 0);
  });

  it('row 57: a claim whose release did not arrive is not woken any more', async () => {
    const { client, proxy, store } = await openLink();
    const [held, wanted] = [request('not-woken'), request('not-woken', { wait: true })];
    let woken = 0;
    const wake = (): void => {
      woken += 1;
    };
    expect((await store.claim(held)).granted).toBe(true);
    expect((await store.claim(wanted, undefined, { wake })).granted).toBe(false);
    proxy.refuse();
    proxy.cut();
    await until('still connected', () => client.getState().code !== CONNECTED);
    await expect(store.release(wanted)).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    proxy.pass();
    await until('its node stays', async () => (await nodesOf(direct, 'not-woken')).length === 1);
    expect(woken).toBe(0);
  });

  it('row 57: a release whose reply is lost with the session has an unknown outcome', async () => {
    const { client, proxy, store } = await openLink();
    const wanted = request('lost-with-session');
    expect((await store.claim(wanted)).granted).toBe(true);
    proxy.holdReplies();
    const released = later(store.release(wanted));
    await until('its node stays', async () => (await nodesOf(direct, wanted.name)).length === 0);
    client.close();
    proxy.cut();
    await expect(released).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
  });

  it.each(['connected', 'not connected'])(
    'row 57: a store that may not remove its node and closes while its client is %s leaves that client',
    async (state) => {
      const { client, proxy, store: other } = await openLink();
      await other.close();
      const listeners = listenersOf(client);
      // Who may remove a claim, its lock node says.
      const acl = [new ACL(Permission.ALL - Permission.DELETE, new Id('world', 'anyone'))];
      const store = zookeeperStore(client, { acl });
      atTheEnd(() => store.close());
      const wanted = request(`not-removable-${state.replace(' ', '-')}`);
      expect((await store.claim(wanted)).granted).toBe(true);
      await expect(store.release(wanted)).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
      expect(listenersOf(client)).toBeGreaterThan(listeners);
      if (state === 'connected') {
        await store.close();
      } else {
        proxy.refuse();
        proxy.cut();
        await until('still connected', () => client.getState().code !== CONNECTED);
        await store.close();
        expect(listenersOf(client)).toBeGreaterThan(listeners);
        proxy.pass();
      }
      await until('the store still listens', () => listenersOf(client) === listeners);
      expect(await nodesOf(direct, wanted.name)).toHaveLength(1);
    },
  );

  for (const [title, hasOther] of [
    ['', false],
    [', also when another store shares it', true],
  ] as const) {
    it(`row 57: a store that closes while disconnected leaves no node in the session${title}`, async () => {
      const { client, proxy, store } = await openLink();
      if (hasOther) storeOn(client);
      const wanted = [1, 2].map(() => request(`closed-${hasOther}`, { wait: true }));
      for (const each of wanted) await store.claim(each);
      const session = client.getSessionId();
      proxy.refuse();
      proxy.cut();
      await until('still connected', () => client.getState().code !== CONNECTED);
      await store.close();
      proxy.pass();
      await until('not connected', () => client.getState().code === CONNECTED);
      expect(client.getSessionId()).toEqual(session);
      await until('a node stays', async () => (await nodesOf(client, `closed-${hasOther}`)).length === 0);
    });
  }
});
