import type { Etcd3 } from 'etcd3';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ClaimRequest, Mode, Store } from '../../src/store/store.ts';
import { type EtcdClient, etcdStore } from '../../src/stores/etcd/index.ts';
import { eventually, later } from '../support/patience.ts';
import { type EtcdCluster, startEtcdCluster } from '../support/servers/etcd.ts';
import { cleanups } from './cleanup.ts';

/** Claims that take several steps, and what comes between them. */
const EXCLUSIVE: Mode = { kind: 'exclusive' };
const atTheEnd = cleanups();
let cluster: EtcdCluster;
let direct: Etcd3;
beforeAll(async () => {
  cluster = await startEtcdCluster({ members: 1 });
  atTheEnd(() => cluster.stop());
  direct = cluster.client();
});

type Hook = (n: number) => Promise<void> | void;

/** The hooks are called before each transaction and after its answer, with its number from 1 on. */
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

function open(before: Hook = () => {}, lineMax?: number): Store {
  const store = etcdStore(stepped(cluster.client(), before), { lineMax });
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

const standing = async (name: string): Promise<number> =>
  Number(
    (
      await direct.kv.range({
        key: Buffer.from(`holdfast/${name}/`),
        range_end: Buffer.from(`holdfast/${name}0`),
      })
    ).count,
  );

/** Resolves, for everybody, once so many have come. */
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

describe.concurrent('a claim of several steps', () => {
  it('does not say that nothing happened when it stands in line and a later step could not be sent', async () => {
    await open().claim(request('steps', 'a#1'));
    const client = cluster.client();
    // Its owner closes the client when the claim stands in line; its place would have to be made longer after that.
    const close = (n: number): void => void (n === 1 && client.close());
    const store = etcdStore(stepped(client, () => {}, close));
    atTheEnd(() => store.close());
    const claimed = store.claim(request('steps', 'b#1', { ttlMs: 2_000 }));
    await expect(claimed).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
    expect(await standing('steps')).toBe(2);
  });

  it('stays in a line that is almost full though others came at once, as many as there is room for', async () => {
    const meet = meeting(3);
    const readers = open();
    for (const n of [1, 2, 3]) await readers.claim(request('bound', `a#${n}`, { mode: { kind: 'shared' } }));
    // All are in line before any of them counts.
    const stores = [1, 2, 3].map(() => open((n) => (n === 2 ? meet() : undefined), 1));
    const came = await Promise.allSettled(stores.map((store, n) => store.claim(request('bound', `b#${n}`))));
    expect(came.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await standing('bound')).toBe(4);
  });

  it('is not turned away because of another that does not belong into the line and is about to leave it', async () => {
    let leave = (): void => {};
    const isTold = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const intruder = open((n) => (n === 2 ? isTold : undefined));
    await open().claim(request('intruded', 'a#1'));
    const mode: Mode = { kind: 'permits', count: 1, of: 2 };
    const intruding = later(intruder.claim(request('intruded', 'c#1', { mode })));
    await eventually('it is in line', async () => (await standing('intruded')) === 2);
    expect(await open().claim(request('intruded', 'b#1'))).toMatchObject({ granted: false });
    expect(await open().claim(request('intruded', 'b#2', { wait: false }))).toMatchObject({ granted: false });
    leave();
    await expect(intruding).rejects.toMatchObject({ code: 'MODE_MISMATCH' });
    expect(await standing('intruded')).toBe(2);
  });
});

describe('a line whose notes are more than a client takes in one answer', () => {
  it('is read in parts, and nothing else fails for it', async () => {
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
    const line = await store.read('long');
    expect(new Set(line.map(({ id }) => id)).size).toBe(1_200);
    expect(line).toHaveLength(1_200);
    expect(line.every(({ granted, note }) => granted && note?.length === 4_000)).toBe(true);
    expect(await store.evict({ name: 'long', id: 'r#1199' })).toBe(true);
    expect(await store.claim(request('long', 'w#1'))).toMatchObject({ granted: false });
  });
});

describe('while the database is full', () => {
  it('holds are renewed, also those that were new, and are handed over', async () => {
    // Named three times, since the client leaves a member alone that has refused it three times.
    const host = `http://${cluster.addresses[0]}`;
    const store = etcdStore(cluster.client({ hosts: [host, host, host] }));
    atTheEnd(() => store.close());
    const term = { ttlMs: 60_000 };
    await store.claim(request('full', 'a#1'));
    await store.renew({ name: 'full', id: 'a#1' }, term);
    await store.claim(request('filled', 'b#1'));
    await store.claim(request('filled', 'c#1', { ttlMs: 5_000 }));
    const alarm = (action: 'Activate' | 'Deactivate') =>
      direct.maintenance.alarm({ action, memberID: '0', alarm: 'Nospace' });
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
});
