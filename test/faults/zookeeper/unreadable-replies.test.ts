import type { EventEmitter } from 'node:events';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Store } from '../../../src/store/store.ts';
import type { RawClient, Transaction } from '../../../src/stores/zookeeper/client.ts';
import { zookeeperStore } from '../../../src/stores/zookeeper/index.ts';
import { request } from '../../../src/testing/store-case.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { cleanups } from '../../support/hooks/cleanups.ts';
import { type Ensemble, startEnsemble } from '../../support/servers/zookeeper.ts';
import { until } from '../../support/waiting/eventually.ts';
import { nodesOf } from './support/witness.ts';

/** The client drops the connection after such a reply, and calls back for no request. */
const SESSION_MS = 12_000;
const CONNECTED = 3;

const atTheEnd = cleanups();
let ensemble: Ensemble;
let direct: RawClient;
beforeAll(async () => {
  ensemble = await startEnsemble({ members: 1, maxSessionMs: SESSION_MS });
  atTheEnd(() => ensemble.stop());
  direct = ensemble.client({ sessionMs: SESSION_MS });
});

interface Manager {
  readonly socket: EventEmitter & { readonly destroyed: boolean };
  readonly pendingQueue: readonly { readonly request: { readonly header: { readonly xid: number } } }[];
}

const managerOf = (client: RawClient): Manager =>
  (client as unknown as { readonly connectionManager: Manager }).connectionManager;

interface Link {
  readonly client: RawClient;
  readonly proxy: FaultProxy;
  readonly store: Store;
}

/** `isEarly`: the store is made before its client connects. */
async function openLink(isEarly = false): Promise<Link> {
  const proxy = await startFaultProxy(Number(ensemble.address.split(':')[1]));
  atTheEnd(() => proxy.stop());
  const client = ensemble.client({ address: `127.0.0.1:${proxy.port}`, sessionMs: SESSION_MS });
  if (!isEarly) await until('not connected', () => client.getState().code === CONNECTED);
  const store = zookeeperStore(client);
  atTheEnd(() => store.close());
  return { client, proxy, store };
}

/** The reply to the next request of this kind is one that the client cannot read. */
function nextUnreadable(
  link: Link,
  verb: 'transaction' | 'getChildren' | 'remove',
  isReady = async () => true,
): void {
  const { client, proxy } = link;
  const sendUnreadable = async (send: () => void): Promise<void> => {
    await until('not ready', isReady);
    proxy.holdReplies();
    const before = proxy.bytesToServer;
    send();
    await until('the request was not sent', () => proxy.bytesToServer > before);
    receiveUnreadable(client);
    proxy.pass();
  };
  const own = client[verb].bind(client) as (...args: unknown[]) => unknown;
  client[verb] = (...args: unknown[]): Transaction => {
    client[verb] = own as () => Transaction;
    if (verb !== 'transaction') return void sendUnreadable(() => own(...args)) as never;
    const transaction = own() as Transaction;
    const commit = transaction.commit.bind(transaction);
    transaction.commit = (answer) => void sendUnreadable(() => commit(answer));
    return transaction;
  };
}

/** The client gets a reply to no request of its own. It forgets the oldest request, and reconnects. */
function receiveUnreadable(client: RawClient): void {
  const reply = Buffer.alloc(20);
  reply.writeInt32BE(reply.length - 4, 0);
  reply.writeInt32BE(2 ** 31 - 1, 4);
  managerOf(client).socket.emit('data', reply);
}

/** What nothing catches from now on. The test runner would report it as a failure of its own. */
function uncaught(): { readonly errors: unknown[]; stop(): void } {
  const errors: unknown[] = [];
  const listeners = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException').on('uncaughtException', (error) => errors.push(error));
  const stop = (): void => {
    process.removeAllListeners('uncaughtException');
    for (const listener of listeners) process.on('uncaughtException', listener);
  };
  return { errors, stop };
}

describe.concurrent('row 56: a reply that the client cannot read', () => {
  it.each(['transaction', 'getChildren'] as const)('to %s does not block other claims', async (verb) => {
    const link = await openLink();
    const name = `unreadable-${verb}`;
    const ask = (id: string) => link.store.claim(request(name, { id, wait: true }));
    expect((await ask('a#1')).granted).toBe(true);
    const { pendingQueue } = managerOf(link.client);
    nextUnreadable(link, verb, async () => {
      // A reply that the client cannot read is the one to its oldest request.
      if (verb === 'transaction') return pendingQueue.length === 0;
      return (await nodesOf(direct, name)).length === 2;
    });
    await expect(ask('a#2')).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
    for (const id of ['a#2', 'a#3']) expect((await ask(id)).granted).toBe(false);
  });

  it('to a release does not block the next release', async () => {
    const link = await openLink();
    const wanted = request('unreadable-remove');
    expect((await link.store.claim(wanted)).granted).toBe(true);
    nextUnreadable(link, 'remove');
    await expect(link.store.release(wanted)).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
    await link.store.release(wanted);
    expect(await nodesOf(direct, wanted.name)).toEqual([]);
  });

  it('because of an unknown error code ends the first connection, not the process', async () => {
    const { client, proxy, store } = await openLink();
    const wanted = request('unknown-code');
    expect((await store.claim(wanted)).granted).toBe(true);
    const { pendingQueue, socket } = managerOf(client);
    await until('the store does not stop asking', () => pendingQueue.length === 0);
    proxy.holdReplies();
    client.getChildren('/', () => {});
    await until('the request was not sent', () => pendingQueue.length > 0);
    // Quota exceeded, of ZooKeeper 3.7: a reply to the oldest request.
    const reply = Buffer.alloc(20);
    reply.writeInt32BE(reply.length - 4, 0);
    reply.writeInt32BE(pendingQueue[0]?.request.header.xid ?? 0, 4);
    reply.writeInt32BE(-125, 16);
    expect(() => socket.emit('data', reply)).not.toThrow();
    expect(socket.destroyed).toBe(true);
    proxy.pass();
    await until(
      'not connected again',
      () => managerOf(client).socket !== socket && client.getState().code === CONNECTED,
    );
    expect(await store.release(wanted)).toBe(true);
  });
});

describe('a callback of the application that throws', () => {
  const fail = (): never => {
    throw new Error('of the application');
  };

  async function failure(call: () => unknown): Promise<void> {
    const { errors, stop } = uncaught();
    try {
      await call();
      await until('nothing was thrown', () => errors.length > 0, 6_000);
    } finally {
      stop();
    }
    expect(errors).toEqual([new Error('of the application')]);
  }

  it('for a reply is uncaught, and does not end the connection', async () => {
    const { client, store } = await openLink(true);
    const wanted = request('application-reply');
    expect((await store.claim(wanted)).granted).toBe(true);
    const { socket } = managerOf(client);
    await failure(() => client.getChildren('/', fail));
    expect(await store.release(wanted)).toBe(true);
    expect(managerOf(client).socket).toBe(socket);
    expect(socket.destroyed).toBe(false);
  });

  it('for a watch is uncaught, and a waiter that watches the same node is woken', async () => {
    const { client, store } = await openLink(true);
    const name = 'application-watch';
    expect((await store.claim(request(name, { id: 'a#1' }))).granted).toBe(true);
    const session = client.getSessionId();
    const { socket } = managerOf(client);
    const [held] = await nodesOf(direct, name);
    const path = `/locks/${name}/${held}`;
    await new Promise((resolve) => client.getData(path, fail, resolve));
    let woken = 0;
    const wake = (): void => {
      woken += 1;
    };
    const wanted = request(name, { id: 'a#2', wait: true });
    expect((await store.claim(wanted, undefined, { wake })).granted).toBe(false);
    await failure(() => direct.remove(path, () => {}));
    await until('the waiter was not woken', () => woken > 0);
    expect((await store.claim(wanted)).granted).toBe(true);
    expect(managerOf(client).socket).not.toBe(socket);
    expect(client.getSessionId()).toEqual(session);
    expect(await store.release(wanted)).toBe(true);
  });
});
