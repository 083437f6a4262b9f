import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ClaimRequest, Store } from '../../src/index.ts';
import { redisStore, redlockStore } from '../../src/stores/redis/index.ts';
import { openClusterClient } from '../support/clients/cluster-clients.ts';
import { openClient } from '../support/clients/redis-clients.ts';
import { type RedisCluster, startRedisCluster } from '../support/servers/redis-cluster.ts';
import { type RedisNodes, startRedisNodes } from '../support/servers/redis-nodes.ts';
import { eventually } from '../support/waiting/eventually.ts';

let nodes: RedisNodes;
let cluster: RedisCluster;
beforeAll(async () => {
  [nodes, cluster] = await Promise.all([startRedisNodes(3), startRedisCluster()]);
});
afterAll(async () => {
  await Promise.all([nodes.stop(), cluster.stop()]);
});

/** A store over clients of its own, as in another process. */
interface Opened {
  readonly store: Store;
  close(): Promise<void>;
}

async function openNodes(urls: readonly string[]): Promise<Opened> {
  const opened = await Promise.all(urls.map((url) => openClient('ioredis', url)));
  const clients = opened.map(({ client }) => client);
  const [first] = clients;
  if (first === undefined) throw new Error('no URL');
  const store = clients.length === 1 ? redisStore(first) : redlockStore(clients);
  return {
    store,
    async close() {
      await store.close();
      for (const { close } of opened) close();
    },
  };
}

const STORES: Readonly<Record<string, () => Promise<Opened>>> = {
  Redis: () => openNodes(nodes.urls.slice(0, 1)),
  Redlock: () => openNodes(nodes.urls),
  async Cluster() {
    const { client, close } = await openClusterClient('ioredis', cluster);
    const store = redisStore(client);
    return { store, close: () => store.close().then(close) };
  },
};

const requestOf = (name: string, id: string, wait: boolean): ClaimRequest => ({
  ...{ name, id, wait, mode: { kind: 'exclusive' }, ttlMs: 30_000, note: '', fenceAbove: 0n },
});

interface Waiting {
  wakes: number;
}

/** A claim that waits, and how often it was woken. It asks again after every wake-up, as the core does. */
async function waitFor(store: Store, name: string, id: string): Promise<Waiting> {
  const waiting = { wakes: 0 };
  const waiter = {
    wake(): void {
      waiting.wakes += 1;
      store.claim(requestOf(name, id, true), undefined, waiter).catch(() => {});
    },
  };
  expect(await store.claim(requestOf(name, id, true), undefined, waiter)).toMatchObject({ granted: false });
  return waiting;
}

/** How many observers of a lock every node has at least. */
async function observersOf(name: string): Promise<number> {
  const admins = nodes.urls.map((url) => new Redis(url));
  const counts = admins.map((admin) =>
    admin.zcount(`holdfast:\u0001queue:${name}`, '(4503599627370496', '+inf'),
  );
  try {
    return Math.min(...(await Promise.all(counts)));
  } finally {
    for (const admin of admins) admin.disconnect();
  }
}

describe.concurrent.each(Object.entries(STORES))('a renewal on %s', (kind, open) => {
  it('wakes the waiters of its lock when it changes the note, and not otherwise', async () => {
    const opened = await Promise.all([open(), open(), open()]);
    const [holder, ...others] = opened.map(({ store }) => store) as [Store, ...Store[]];
    const name = `noted ${kind}`;
    expect(await holder.claim(requestOf(name, 'holder', false))).toMatchObject({ granted: true });
    const waiting = await Promise.all(others.map((store, n) => waitFor(store, name, `waiter ${n}`)));
    // They are woken once when their subscriptions are active.
    await eventually('they are subscribed', () => waiting.every(({ wakes }) => wakes > 0));
    // A majority of the nodes is enough for that, and a node that is subscribed later wakes them again.
    if (kind === 'Redlock')
      await eventually('all nodes are observed', async () => (await observersOf(name)) === others.length);
    const elsewhere = requestOf(`beside ${name}`, 'other holder', false);
    expect(await holder.claim(elsewhere)).toMatchObject({ granted: true });
    const beside = await waitFor(others[0] as Store, elsewhere.name, 'waiter beside');
    // In a Cluster it is in another slot, which has a subscription of its own. Redlock observes each lock.
    if (kind !== 'Redis') await eventually('it is subscribed', () => beside.wakes > 0);
    await sleep(200);
    const before = waiting.map(({ wakes }) => wakes);
    const besideBefore = beside.wakes;
    for (let renewals = 0; renewals < 20; renewals += 1)
      expect(await holder.renew({ name, id: 'holder' }, { ttlMs: 30_000 })).toMatchObject({ held: true });
    expect(waiting.map(({ wakes }) => wakes)).toEqual(before);
    await holder.renew({ name, id: 'holder' }, { ttlMs: 30_000, note: 'changed' });
    await eventually('every waiter is woken', () =>
      waiting.every(({ wakes }, n) => wakes > (before[n] ?? 0)),
    );
    expect(beside.wakes).toBe(besideBefore);
    expect((await holder.read(name)).find(({ granted }) => granted)?.note).toBe('changed');
    await Promise.all(opened.map(({ close }) => close()));
  });
});
