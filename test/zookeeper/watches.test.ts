import { connect } from 'node:net';
import zookeeper from 'node-zookeeper-client';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import type { Store } from '../../src/store/store.ts';
import { CREATE, type RawClient, STATE } from '../../src/stores/zookeeper/client.ts';
import { type ZookeeperStoreOptions, zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { PatchedClient } from '../../src/stores/zookeeper/patched-client.ts';
import { Session } from '../../src/stores/zookeeper/session.ts';
import { request } from '../../src/testing/store-case.ts';
import { cleanups } from '../support/hooks/cleanups.ts';
import { type Ensemble, startEnsemble } from '../support/servers/zookeeper.ts';
import { until } from '../support/waiting/eventually.ts';

const { ACL, Id, Permission } = zookeeper;

/** What a waiter watches at the server, and what is left of that. */
const atTheEnd = cleanups();
let ensemble: Ensemble;
beforeAll(async () => {
  ensemble = await startEnsemble({ members: 1, maxSessionMs: 12_000 });
  atTheEnd(() => ensemble.stop());
});

function openStore(client: RawClient, options: ZookeeperStoreOptions = {}): Store {
  const store = zookeeperStore(client, options);
  atTheEnd(() => store.close());
  return store;
}

const connected = (): RawClient => ensemble.client({ sessionMs: 12_000 });

/** Runs before the client's next request that watches a node is sent. Resolves to the result. */
function beforeWatch<T>(client: RawClient, run: () => Promise<T>): Promise<T> {
  return new Promise((resolve) => {
    const { exists, getData } = client;
    const delayed = (send: (...args: never[]) => void) =>
      function (this: RawClient, ...args: never[]): void {
        const isWatch = args.length > 2 && typeof args[1] === 'function';
        if (isWatch) Object.assign(client, { exists, getData });
        if (isWatch) resolve(run().finally(() => send.apply(this, args)));
        else send.apply(this, args);
      };
    Object.assign(client, { exists: delayed(exists), getData: delayed(getData) });
  });
}

/** The paths that clients watch. */
async function watchedPaths(): Promise<string> {
  let answer = '';
  const socket = connect(ensemble.members[0]?.port ?? 0, '127.0.0.1', () => socket.write('wchp'));
  for await (const data of socket) answer += String(data);
  return answer;
}

describe.concurrent('a waiter behind another claim', () => {
  it('leaves no watch at the server when that claim is gone already', async () => {
    const client = connected();
    const [holder, waiting] = [openStore(connected()), openStore(client)];
    const watched: string[] = [];
    for (const isGone of [false, true]) {
      const [held, wanted] = [request('gone'), request('gone', { wait: true })];
      expect((await holder.claim(held)).granted).toBe(true);
      const released = isGone ? beforeWatch(client, () => holder.release(held)) : null;
      let woken = 0;
      const wake = (): void => {
        woken += 1;
      };
      expect((await waiting.claim(wanted, undefined, { wake })).granted).toBe(false);
      watched.push(await watchedPaths());
      expect(await (released ?? holder.release(held))).toBe(true);
      await until('the waiter was not woken', () => woken > 0);
      expect((await waiting.claim(wanted)).granted).toBe(true);
      expect(await waiting.release(wanted)).toBe(true);
    }
    expect(watched[0]).toContain('/locks/gone/');
    expect(watched[1]).not.toContain('/locks/gone/');
  });

  it('asks once a second behind a claim whose node it may not read, which cannot be watched', async () => {
    const acl = [new ACL(Permission.ALL - Permission.READ, new Id('world', 'anyone'))];
    const [holder, waiting] = [openStore(connected(), { acl }), openStore(connected())];
    const [held, wanted] = [request('unreadable'), request('unreadable', { wait: true })];
    // Makes the lock node, which can be read.
    expect((await waiting.claim(wanted)).granted).toBe(true);
    expect(await waiting.release(wanted)).toBe(true);
    expect((await holder.claim(held)).granted).toBe(true);
    const ask = () => waiting.claim(wanted, undefined, { wake: () => {} });
    for (let asked = 0; asked < 3; asked += 1)
      expect(await ask()).toEqual({ granted: false, retryAfterMs: 1_000 });
    expect(await holder.release(held)).toBe(true);
    expect((await ask()).granted).toBe(true);
  });

  it('keeps no record of a watch that is cancelled before the server refuses it', async () => {
    const client = connected();
    await until('not connected', () => client.getState().code === STATE.connected);
    const acl = [new ACL(Permission.ALL - Permission.READ, new Id('world', 'anyone'))];
    await new Promise((resolve) =>
      client.create('/unreadable-record', Buffer.alloc(0), acl, CREATE.persistent, resolve),
    );
    const session = new Session(PatchedClient.of(client), false, systemClock);
    atTheEnd(session.use(() => {}));
    const { armed, cancel } = session.watches.add('node', '/unreadable-record', () => {});
    cancel();
    await expect(armed).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    const forgotten = vi.spyOn(session.client, 'forgetWatch');
    session.watches.reset();
    expect(forgotten).not.toHaveBeenCalled();
  });
});
