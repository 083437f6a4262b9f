import { setTimeout as sleep } from 'node:timers/promises';
import type { Etcd3 } from 'etcd3';
import { describe, expect, it } from 'vitest';
import type { ClaimRequest, Mode, Store } from '../../src/store/store.ts';
import { type EtcdClient, etcdStore } from '../../src/stores/etcd/index.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { startOneMember } from './support/one-member.ts';

/** Claims that need several transactions, and what happens between those. */
const EXCLUSIVE: Mode = { kind: 'exclusive' };
const { cluster, direct, atTheEnd } = await startOneMember();

type Hook = (n: number) => Promise<void> | void;

/**
 * Calls the hooks before each transaction and after its answer, with its number, which starts at 1.
 */
function stepped(client: Etcd3, before: Hook, after: Hook = () => {}): EtcdClient {
  let count = 0;
  const txn = async (request: object, options?: object): Promise<unknown> => {
    count += 1;
    const n = count;
    await before(n);
    const answer = await client.kv.txn(request as never, options);
    await after(n);
    return answer;
  };
  const { leaseClient, watchClient } = client;
  return { kv: { txn }, leaseClient, watchClient };
}

function open(before: Hook = () => {}, queueMax?: number): Store {
  const store = etcdStore(stepped(cluster.client(), before), { queueMax });
  atTheEnd(() => store.close());
  return store;
}

const request = (name: string, id: string, more: Partial<ClaimRequest> = {}): ClaimRequest => ({
  name,
  id,
  mode: EXCLUSIVE,
  ttlMs: 60_000,
  wait: true,
  note: '',
  fenceAbove: 0n,
  ...more,
});

const queueLength = async (name: string): Promise<number> =>
  Number(
    (
      await direct.kv.range({
        key: Buffer.from(`holdfast/${name}/`),
        range_end: Buffer.from(`holdfast/${name}0`),
      })
    ).count,
  );

/** Every call of the result resolves when it has been called this many times. */
function meeting(size: number): () => Promise<void> {
  let [come, go] = [0, (): void => {}];
  const all = new Promise<void>((resolve) => {
    go = resolve;
  });
  return async () => {
    come += 1;
    if (come === size) go();
    await all;
  };
}

describe.concurrent('a claim of several transactions', () => {
  it('has an unknown outcome when it is in the queue and a later transaction could not be sent', async () => {
    await open().claim(request('steps', 'a#1'));
    const client = cluster.client();
    // The client is closed when the claim is in the queue, before it moves to the lease of a
    // waiter.
    const close = (n: number): void => void (n === 1 && client.close());
    const store = etcdStore(stepped(client, () => {}, close));
    atTheEnd(() => store.close());
    const claimed = store.claim(request('steps', 'b#1'));
    await expect(claimed).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
    expect(await queueLength('steps')).toBe(2);
  });

  it('waits on a lease of a waiter, though the client sent its entry twice', async () => {
    await open().claim(request('twice', 'a#1'));
    const client = cluster.client();
    let count = 0;
    const txn = async (sent: object, options?: object): Promise<unknown> => {
      count += 1;
      if (count === 1) {
        await client.kv.txn(sent as never, options);
        await direct.put('written').value('between the two');
      }
      return await client.kv.txn(sent as never, options);
    };
    const store = etcdStore({ ...stepped(client, () => {}), kv: { txn } });
    atTheEnd(() => store.close());
    expect(await store.claim(request('twice', 'b#1'))).toMatchObject({ granted: false });
    const prefix = { key: Buffer.from('holdfast/twice/'), range_end: Buffer.from('holdfast/twice0') };
    const { kvs } = await direct.kv.range(prefix);
    const ttls = kvs.map(
      async ({ lease: ID }) => (await direct.leaseClient.leaseTimeToLive({ ID })).grantedTTL,
    );
    expect((await Promise.all(ttls)).map(Number).sort((a, b) => a - b)).toEqual([5, 60]);
  });

  it('stays in a queue that is almost full, though others came at once, if there is room', async () => {
    const meet = meeting(3);
    const readers = open();
    for (const n of [1, 2, 3]) await readers.claim(request('bound', `a#${n}`, { mode: { kind: 'shared' } }));
    // All are in the queue before one of them counts the queue.
    const stores = [1, 2, 3].map(() => open((n) => (n === 2 ? meet() : undefined), 1));
    const came = await Promise.allSettled(stores.map((store, n) => store.claim(request('bound', `b#${n}`))));
    expect(came.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await queueLength('bound')).toBe(4);
  });

  it('is not refused because of an incompatible claim that is about to be refused itself', async () => {
    let leave = (): void => {};
    const mayLeave = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const intruder = open((n) => (n === 2 ? mayLeave : undefined));
    await open().claim(request('intruded', 'a#1'));
    const mode: Mode = { kind: 'permits', count: 1, of: 2 };
    const intruding = later(intruder.claim(request('intruded', 'c#1', { mode })));
    await eventually('the claim is in the queue', async () => (await queueLength('intruded')) === 2);
    expect(await open().claim(request('intruded', 'b#1'))).toMatchObject({ granted: false });
    expect(await open().claim(request('intruded', 'b#2', { wait: false }))).toMatchObject({ granted: false });
    leave();
    await expect(intruding).rejects.toMatchObject({ code: 'MODE_MISMATCH' });
    expect(await queueLength('intruded')).toBe(2);
  });
});

describe.concurrent('a waiter that is released', () => {
  it('is not woken any more, also while the answer to its release is awaited', async () => {
    let answer = (): void => {};
    const silence = new Promise<void>((resolve) => {
      answer = resolve;
    });
    let isSilent = false;
    const after = (): Promise<void> | undefined => (isSilent ? silence : undefined);
    const [others, store] = [open(), etcdStore(stepped(cluster.client(), () => {}, after))];
    atTheEnd(() => store.close());
    const [holder, waiter] = [request('left', 'a#1'), request('left', 'b#1')];
    await others.claim(holder);
    let wakeUps = 0;
    const wake = (): void => {
      wakeUps += 1;
    };
    expect(await store.claim(waiter, undefined, { wake })).toMatchObject({ granted: false });
    // By then its watches are made.
    await sleep(500);
    isSilent = true;
    const released = later(store.release(waiter));
    await eventually('the waiter has left', async () => (await queueLength('left')) === 1);
    await others.release(holder);
    await sleep(500);
    expect(wakeUps).toBe(0);
    answer();
    expect(await released).toBe(true);
  });
});

describe.concurrent('a claim that waits while another of its lock is sent', () => {
  for (const wait of [true, false])
    it(`is given up at once, as not sent (wait: ${wait})`, async () => {
      const name = `turns-${wait}`;
      let answer = (): void => {};
      const silence = new Promise<void>((resolve) => {
        answer = resolve;
      });
      const store = open((n) => (n === 1 ? silence : undefined));
      const first = later(store.claim(request(name, 'a#1')));
      const controllers = [1, 2, 3].map(() => new AbortController());
      const [second, third, last] = controllers.map(({ signal }, n) =>
        later(store.claim(request(name, `b#${n}`, { wait }), signal)),
      );
      for (const controller of controllers.slice(0, 2)) controller.abort();
      await expect(second).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
      await expect(third).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
      answer();
      expect(await first).toMatchObject({ granted: true });
      expect(await last).toMatchObject({ granted: false });
      expect(await queueLength(name)).toBe(wait ? 2 : 1);
    });
});

describe('a queue whose notes do not fit into one answer', () => {
  it('is read in parts, and other requests do not fail', async () => {
    const value = Buffer.alloc(4_000, 'n');
    for (let from = 0; from < 1_200; from += 100)
      await direct.kv.txn({
        compare: [],
        failure: [],
        success: Array.from({ length: 100 }, (_, n) => ({
          request_put: { key: Buffer.from(`holdfast/long/~s~r#${from + n}`), value },
        })),
      });
    const store = open();
    const queue = await store.read('long');
    expect(new Set(queue.map(({ id }) => id)).size).toBe(1_200);
    expect(queue).toHaveLength(1_200);
    expect(queue.every(({ granted, note }) => granted && note?.length === 4_000)).toBe(true);
    expect(await store.evict({ name: 'long', id: 'r#1199' })).toBe(true);
    expect(await store.claim(request('long', 'w#1'))).toMatchObject({ granted: false });
  });
});

describe('while the database is full', () => {
  const alarm = (action: 'Activate' | 'Deactivate') =>
    direct.maintenance.alarm({ action, memberID: '0', alarm: 'Nospace' });

  it('holds are renewed, also new ones, and a release hands the lock off', async () => {
    // The client stops asking a host after three refusals, so the member is named three times.
    const host = `http://${cluster.addresses[0]}`;
    const store = etcdStore(cluster.client({ hosts: [host, host, host] }));
    atTheEnd(() => store.close());
    const term = { ttlMs: 60_000 };
    await store.claim(request('full', 'a#1'));
    await store.renew({ name: 'full', id: 'a#1' }, term);
    await store.claim(request('filled', 'b#1'));
    await store.claim(request('filled', 'c#1', { ttlMs: 5_000 }));
    await alarm('Activate');
    try {
      await expect(cluster.client().put('more').value('than there is room for')).rejects.toThrow(
        'space exceeded',
      );
      expect(await store.renew({ name: 'full', id: 'a#1' }, term)).toMatchObject({ held: true });
      expect(await store.renew({ name: 'filled', id: 'b#1' }, term)).toMatchObject({ held: true });
      expect(await store.release({ name: 'filled', id: 'b#1' })).toBe(true);
      expect(await store.claim(request('filled', 'c#1', { ttlMs: 5_000 }))).toMatchObject({ granted: true });
    } finally {
      await alarm('Deactivate');
    }
  });

  it('a waiter with a long TTL that is woken gets the lock', async () => {
    const host = `http://${cluster.addresses[0]}`;
    const store = etcdStore(cluster.client({ hosts: Array.from({ length: 12 }, () => host) }));
    atTheEnd(() => store.close());
    const [holder, waiter] = [request('long-full', 'a#1'), request('long-full', 'b#1', { ttlMs: 30_000 })];
    await store.claim(holder);
    let isWoken = false;
    const wake = (): void => {
      isWoken = true;
    };
    expect(await store.claim(waiter, undefined, { wake })).toMatchObject({ granted: false });
    await alarm('Activate');
    try {
      isWoken = false;
      expect(await store.release(holder)).toBe(true);
      await eventually('the waiter is woken', () => isWoken);
      expect(await store.claim(waiter, undefined, { wake })).toMatchObject({ granted: true });
      expect(await store.renew(waiter, { ttlMs: 30_000 })).toMatchObject({ held: true });
    } finally {
      await alarm('Deactivate');
    }
  });
});
