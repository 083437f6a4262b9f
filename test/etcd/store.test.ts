import { setTimeout as sleep } from 'node:timers/promises';
import type { Etcd3 } from 'etcd3';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { counted } from '../../bench/etcd/counted.ts';
import { createLocks, type Locks, type LocksOptions } from '../../src/index.ts';
import { type EtcdClient, etcdStore } from '../../src/stores/etcd/index.ts';
import { later } from '../support/patience.ts';
import { renewed } from '../support/renewed.ts';
import { type EtcdCluster, startEtcdCluster } from '../support/servers/etcd.ts';
import { cleanups } from './cleanup.ts';

/** What is particular to this store: shared leases, watches, and times that are enforced by nobody else. */
// Most of it is waiting.
vi.setConfig({ maxConcurrency: 4 });
const atTheEnd = cleanups();
let cluster: EtcdCluster;
let direct: Etcd3;
beforeAll(async () => {
  cluster = await startEtcdCluster({ members: 1 });
  atTheEnd(() => cluster.stop());
  direct = cluster.client();
});

function open(client: EtcdClient = cluster.client(), options: LocksOptions = {}): Locks {
  const locks = createLocks(etcdStore(client), { waitMs: 20_000, ...options });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

async function keysOf(name: string): Promise<{ key: string; lease: string }[]> {
  const [key, range_end] = [Buffer.from(`holdfast/${name}/`), Buffer.from(`holdfast/${name}0`)];
  const { kvs } = await direct.kv.range({ key, range_end });
  return kvs.map((kv) => ({ key: kv.key.toString(), lease: kv.lease }));
}

async function until(what: string, isSo: () => Promise<boolean> | boolean, budgetMs = 15_000): Promise<void> {
  for (const end = performance.now() + budgetMs; performance.now() < end; await sleep(25))
    if (await isSo()) return;
  expect.fail(what);
}

describe.concurrent('leases', () => {
  // The longest first: the others run beside it.
  it('a place in line lives for ten seconds, also with a short TTL, and then no longer', async () => {
    const store = etcdStore(cluster.client());
    atTheEnd(() => store.close());
    const request = (id: string, ttlMs: number) =>
      ({
        name: 'places',
        id,
        mode: { kind: 'exclusive' },
        ttlMs,
        wait: true,
        note: '',
        fenceAbove: 0n,
      }) as const;
    const holder = await open().mutex('places').acquire({ ttlMs: 60_000 });
    await store.claim(request('waiter#1', 1_000));
    await sleep(8_000);
    expect(await keysOf('places')).toHaveLength(2);
    await until('the place lives for ever', async () => (await keysOf('places')).length === 1);
    await holder.release();
  });

  it('a thousand holds share two leases at most once they are renewed, and one keep-alive stream at a time', async () => {
    const { client, count } = counted(cluster.client());
    const locks = open(client, { ttlMs: 8_000 });
    const names = Array.from({ length: 1_000 }, (_, n) => `shared-${n}`);
    const holds = await Promise.all(names.map((name) => locks.mutex(name).acquire()));
    const [key, range_end] = [Buffer.from('holdfast/shared-'), Buffer.from('holdfast/shared.')];
    const leases = async (): Promise<string[]> =>
      (await direct.kv.range({ key, range_end })).kvs.map((kv) => kv.lease);
    for (const hold of holds.slice(-1)) await renewed(hold);
    await until('they share no lease', async () => new Set(await leases()).size <= 2);
    expect(holds.filter((hold) => hold.remainingMs > 0)).toHaveLength(1_000);
    expect(await leases()).toHaveLength(1_000);
    expect(count.mostKeepAlives).toBeLessThanOrEqual(2);
    expect(await locks.releaseAll()).toBe(1_000);
  });

  it('a hold that is not renewed ends on time beside others that are', async () => {
    const locks = open();
    const [renewed, unrenewed] = await Promise.all([
      locks.mutex('beside-1').acquire({ ttlMs: 3_500 }),
      locks.mutex('beside-2').acquire({ ttlMs: 3_500, renew: false }),
    ]);
    expect((await keysOf('beside-1'))[0]?.lease).toBe((await keysOf('beside-2'))[0]?.lease);
    const next = await open().mutex('beside-2').acquire();
    expect(unrenewed.signal.aborted).toBe(true);
    renewed.assertHeld();
    await next.release();
    expect(await renewed.release()).toBe(true);
  });

  it('what is remembered outlives the store that did it, and lives no longer than asked', async () => {
    const first = createLocks(etcdStore(cluster.client()));
    expect(await first.once('job', () => 'done', { rememberMs: 3_000 })).toEqual({
      ran: true,
      value: 'done',
    });
    await first.close();
    const second = open();
    expect(await second.once('job', () => 'again')).toEqual({ ran: false, why: 'done' });
    await until('it was remembered for ever', async () => (await second.once('job', () => 'again')).ran);
  });

  it('a rate limit lets so many through in a window', async () => {
    const limit = open().rateLimit('rate', { permits: 3, perMs: 2_000 });
    const startedAt = performance.now();
    const taken = await Promise.all([1, 2, 3, 4].map(() => limit.tryTake()));
    expect(taken.filter(Boolean)).toHaveLength(3);
    await limit.take();
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(2_000);
  });

  it('a hold can be made longer and shorter', async () => {
    const locks = open();
    const hold = await locks.mutex('extended').acquire({ ttlMs: 2_000 });
    await hold.extend(60_000);
    expect(hold.remainingMs).toBeGreaterThan(50_000);
    await hold.extend(2_000);
    expect(hold.remainingMs).toBeLessThan(4_000);
    expect(await hold.release()).toBe(true);
  });

  it('a hold by hand-over lives as long as it was asked to, not as long as its place in line did', async () => {
    const locks = open();
    const holder = await locks.mutex('short-hold').acquire();
    const waiting = later(locks.mutex('short-hold').acquire({ ttlMs: 1_500 }));
    await sleep(300);
    await holder.release();
    const hold = await waiting;
    expect(hold.remainingMs).toBeLessThanOrEqual(2_000);
    await hold.release();
  });
});

describe.concurrent('lines', () => {
  it('a hundred waiters are served in order, with one event each, whoever waits behind them', async () => {
    const { client, count } = counted(cluster.client());
    const locks = open(client, { waitMs: 60_000, ttlMs: 60_000 });
    const lock = locks.mutex('hundred');
    const blocker = await lock.acquire();
    const fences: bigint[] = [];
    const line = Array.from({ length: 100 }, () =>
      lock.acquire().then(async (hold) => {
        fences.push(hold.fence);
        await hold.release();
      }),
    );
    await until('not all wait', async () => (await keysOf('hundred')).length === 101);
    await sleep(500);
    const before = { ...count };
    await blocker.release();
    await Promise.all(line);
    expect(fences).toEqual([...fences].sort((a, b) => (a < b ? -1 : 1)));
    // Their own keys are watched too, and some are deleted before that watch has ended.
    expect(count.events - before.events).toBeLessThanOrEqual(110);
    expect(count.txns - before.txns).toBeLessThanOrEqual(260);
    expect(count.watches).toBe(1);
  });

  it('permits pass from any holder to the first in line, and only so many are out', async () => {
    const locks = open();
    const semaphore = locks.semaphore('permits', { permits: 5 });
    let out = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 40 }, async (_, n) => {
        const permits = 1 + (n % 3);
        const hold = await semaphore.acquire({ permits });
        out += permits;
        most = Math.max(most, out);
        await sleep(5);
        out -= permits;
        await hold.release();
      }),
    );
    expect(most).toBeLessThanOrEqual(5);
    expect(most).toBeGreaterThan(2);
    expect(await keysOf('permits')).toEqual([]);
  });

  it('a permit that comes back wakes the first in line, not all of them', async () => {
    const { client, count } = counted(cluster.client());
    const locks = open(client, { ttlMs: 60_000 });
    const semaphore = locks.semaphore('few', { permits: 2 });
    const holders = await Promise.all([semaphore.acquire(), semaphore.acquire()]);
    const order: number[] = [];
    const line = Array.from({ length: 30 }, (_, n) =>
      semaphore.acquire().then((hold) => {
        order.push(n);
        return hold;
      }),
    );
    await until('not all wait', async () => (await keysOf('few')).length === 32);
    await until('they ask and ask', async () => {
      const idle = count.txns;
      await sleep(500);
      return count.txns - idle <= 2;
    });
    const before = count.txns;
    await holders[0]?.release();
    await until('nobody was woken', () => order.length === 1);
    await sleep(200);
    // The release, the look of the one that got in, and that of the one behind it.
    expect(count.txns - before).toBeLessThanOrEqual(5);
    await holders[1]?.release();
    for (const hold of line) await (await hold).release();
    expect(order).toEqual(Array.from({ length: 30 }, (_, n) => n));
  });

  it('readers enter together behind a writer, and a writer behind readers waits for the last', async () => {
    const lock = open().readWriteLock('rw');
    const writer = await lock.write.acquire();
    const readers = [1, 2, 3].map(() => lock.read.acquire());
    await until('not all wait', async () => (await keysOf('rw')).length === 4);
    const last = later(lock.write.acquire());
    await until('not all wait', async () => (await keysOf('rw')).length === 5);
    await writer.release();
    const inside = await Promise.all(readers);
    let isIn = false;
    void last.then(() => {
      isIn = true;
    });
    for (const reader of inside) {
      expect(isIn).toBe(false);
      await reader.release();
    }
    await (await last).release();
  });

  it('more permits than are read at once are counted right', async () => {
    const store = etcdStore(cluster.client());
    atTheEnd(() => store.close());
    const request = (n: number) =>
      ({
        name: 'pages',
        id: `p#${n}`,
        mode: { kind: 'permits', count: 1, of: 600 },
        ttlMs: 60_000,
        wait: false,
        note: '',
        fenceAbove: 0n,
      }) as const;
    let granted = 0;
    for (let from = 0; from < 620; from += 20) {
      const some = Array.from({ length: 20 }, (_, n) => store.claim(request(from + n)));
      granted += (await Promise.all(some)).filter((outcome) => outcome.granted).length;
    }
    expect(granted).toBe(600);
  });
});

describe.concurrent('elections', () => {
  it('terms are fences: they rise, observers see them in order, and a leader that stops hands over at once', async () => {
    const [a, b, observer] = [open(), open(), open()];
    const terms: bigint[] = [];
    const seen: bigint[] = [];
    const controller = new AbortController();
    const watching = (async () => {
      for await (const leader of observer.election('boss').observe({ signal: controller.signal }))
        if (leader?.fence != null) seen.push(leader.fence);
    })().catch(() => {});
    const stand = (locks: Locks) =>
      locks.election('boss').start({ onElected: (term) => void terms.push(term.fence) });
    const first = stand(a);
    await until('nobody was elected', () => first.isLeader);
    const second = stand(b);
    await until('the first term was not seen', () => seen.length === 1);
    await until(
      'the second does not stand',
      async () => (await observer.inspect('boss')).waiters.length === 1,
    );
    const stoppedAt = performance.now();
    await first.stop();
    await until('the second was not elected', () => second.isLeader);
    expect(performance.now() - stoppedAt).toBeLessThan(10_000);
    await until('the second term was not seen', () => seen.length >= 2);
    expect((await observer.election('boss').leader())?.fence).toBe(terms[1]);
    await second.stop();
    controller.abort();
    await watching;
    expect(terms).toHaveLength(2);
    expect(terms[1] ?? 0n).toBeGreaterThan(terms[0] ?? 0n);
    expect(seen).toEqual(terms);
  });
});
