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
  readonly socket: EventEmitter;
  readonly pendingQueue: readonly object[];
}

interface Link {
  readonly client: RawClient;
  readonly proxy: FaultProxy;
  readonly store: Store;
}

async function openLink(): Promise<Link> {
  const proxy = await startFaultProxy(Number(ensemble.address.split(':')[1]));
  atTheEnd(() => proxy.stop());
  const client = ensemble.client({ address: `127.0.0.1:${proxy.port}`, sessionMs: SESSION_MS });
  await until('not connected', () => client.getState().code === CONNECTED);
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
  const { connectionManager } = client as unknown as { connectionManager: Manager };
  connectionManager.socket.emit('data', reply);
}

describe.concurrent('row 56: a reply that the client cannot read', () => {
  it.each(['transaction', 'getChildren'] as const)('to %s does not block other claims', async (verb) => {
    const link = await openLink();
    const name = `unreadable-${verb}`;
    const ask = (id: string) => link.store.claim(request(name, { id, wait: true }));
    expect((await ask('a#1')).granted).toBe(true);
    const { pendingQueue } = (link.client as unknown as { connectionManager: Manager }).connectionManager;
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
});
