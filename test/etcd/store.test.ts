import { setTimeout as sleep } from 'node:timers/promises';
import type { Etcd3 } from 'etcd3';
import { describe, expect, it, vi } from 'vitest';
import { counted } from '../../bench/etcd/counted.ts';
import { createLocks, type Locks, type LocksOptions } from '../../src/index.ts';
import { type EtcdClient, etcdStore } from '../../src/stores/etcd/index.ts';
import { permits, request } from '../../src/testing/store-case.ts';
import { later, until } from '../support/waiting/eventually.ts';
import { renewed } from '../support/waiting/renewed.ts';
import { startOneMember } from './support/one-member.ts';

/**
 * Behaviour that only this store has: shared leases, watches, and times that the store enforces.
 */
// Nearly all of the time is spent waiting.
vi.setConfig({ maxConcurrency: 4 });
const { cluster, direct, atTheEnd } = await startOneMember();

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

/** Records the seconds of every lease that is granted: a short one may be gone before it is looked up. */
function grantsOf(client: Etcd3): { client: EtcdClient; granted: readonly number[] } {
  const granted: number[] = [];
  const { kv, leaseClient, watchClient } = client;
  const recording = new Proxy(leaseClient, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function') return value;
      return (...args: { TTL?: unknown }[]): unknown => {
        if (key === 'leaseGrant') granted.push(Number(args[0]?.TTL));
        return value.apply(target, args);
      };
    },
  });
  return { client: { kv, leaseClient: recording, watchClient }, granted };
}

describe.concurrent('leases', () => {
  // The longest test comes first, so that the others run during it.
  for (const { ttlMs, seconds } of [
    { ttlMs: 60_000, seconds: 5 },
    { ttlMs: 2_000, seconds: 2 },
  ]) {
    it(`a waiting claim of ${ttlMs} ms lives for ${seconds} s after its last request`, async () => {
      const { client, granted } = grantsOf(cluster.client());
      const store = etcdStore(client);
      atTheEnd(() => store.close());
      const name = `waits-${ttlMs}`;
      const wanted = request(name, { id: 'waiter#1', ttlMs, wait: true });
      const holder = await open().mutex(name).acquire({ ttlMs: 60_000 });
      const askedAt = performance.now();
      expect(await store.claim(wanted)).toMatchObject({ granted: false });
      expect(granted.at(-1)).toBe(seconds);
      // Nothing extends it.
      await until('the claim never ends', async () => (await keysOf(name)).length === 1);
      expect(performance.now() - askedAt).toBeGreaterThan(seconds * 1_000 - 100);
      await holder.release();
    });
  }

  it('a hold has a lease of exactly its whole seconds, when it is new, renewed and handed off', async () => {
    const { client, granted } = grantsOf(cluster.client());
    const locks = open(client);
    const hold = await locks.mutex('whole').acquire({ ttlMs: 3_000 });
    await hold.extend(3_000);
    expect(hold.remainingMs).toBeLessThanOrEqual(3_000);
    await (await locks.mutex('whole').tryAcquire({ ttlMs: 3_000 }))?.release();
    const waiting = later(locks.mutex('whole').acquire({ ttlMs: 3_000 }));
    await until('nobody waits', async () => (await keysOf('whole')).length === 2);
    await hold.release();
    const next = await waiting;
    expect(next.remainingMs).toBeLessThanOrEqual(3_000);
    await next.release();
    expect(new Set(granted)).toEqual(new Set([3]));
  });

  it('a hold of permits has a longer lease until its first renewal: a rate limit is exact', async () => {
    const { client, granted } = grantsOf(cluster.client());
    const hold = await open(client).semaphore('whole-permits', { permits: 2 }).acquire({ ttlMs: 3_000 });
    expect(granted).toEqual([4]);
    await hold.extend(3_000);
    expect(granted).toEqual([4, 3]);
    expect(hold.remainingMs).toBeLessThanOrEqual(3_000);
    expect(await hold.release()).toBe(true);
  });

  it('TTLs of less than a second, and of fractions, are held and renewed', async () => {
    const locks = open();
    for (const ttlMs of [200, 999, 1_500, 2_700]) {
      const hold = await locks.mutex(`fraction-${ttlMs}`).acquire({ ttlMs });
      expect(hold.remainingMs).toBeGreaterThan(Math.min(ttlMs, 900));
      await renewed(hold);
      expect(await hold.release()).toBe(true);
    }
  });

  it('a waiter that asks again in time keeps its queue position, however long it waits', async () => {
    const holder = await open().mutex('kept-position').acquire();
    const waiting = later(open().mutex('kept-position').acquire());
    await until('nobody waits', async () => (await keysOf('kept-position')).length === 2);
    const before = await direct.getAll().prefix('holdfast/kept-position/').exec();
    await sleep(8_000);
    const after = await direct.getAll().prefix('holdfast/kept-position/').exec();
    const revisions = (found: typeof before): string[] => found.kvs.map((kv) => kv.create_revision).sort();
    expect(revisions(after)).toEqual(revisions(before));
    await holder.release();
    await (await waiting).release();
  });

  it('a thousand renewed holds share at most two leases, and one keep-alive stream at a time', async () => {
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

  it('a hold that is not renewed ends on time although others on its lease are renewed', async () => {
    const locks = open();
    const [renewed, unrenewed] = await Promise.all([
      locks.mutex('beside-1').acquire({ ttlMs: 6_000 }),
      locks.mutex('beside-2').acquire({ ttlMs: 6_000, renew: false }),
    ]);
    expect((await keysOf('beside-1'))[0]?.lease).toBe((await keysOf('beside-2'))[0]?.lease);
    const next = await open().mutex('beside-2').acquire();
    expect(unrenewed.signal.aborted).toBe(true);
    renewed.assertHeld();
    await next.release();
    expect(await renewed.release()).toBe(true);
  });

  it('a finished run is remembered after its store has closed, and no longer than asked for', async () => {
    const first = createLocks(etcdStore(cluster.client()));
    expect(await first.once('job', () => 'done', { rememberMs: 8_000 })).toEqual({
      ran: true,
      value: 'done',
    });
    await first.close();
    const second = open();
    expect(await second.once('job', () => 'again')).toEqual({ ran: false, why: 'done' });
    await until(
      'the run was remembered for too long',
      async () => (await second.once('job', () => 'again')).ran,
    );
  });

  it('a finished run is remembered for 366 days', async () => {
    const rememberMs = 366 * 86_400_000;
    const first = createLocks(etcdStore(cluster.client()));
    expect(await first.once('yearly', () => 'done', { rememberMs })).toMatchObject({ ran: true });
    await first.close();
    const second = open();
    expect(await second.once('yearly', () => 'again')).toEqual({ ran: false, why: 'done' });
    expect(await second.inspect('yearly', { use: 'once' })).toMatchObject({ done: true, holders: [] });
    const found = await direct.getAll().prefix('holdfast/').exec();
    const lease = found.kvs.find((kv) => kv.key.toString().includes('yearly'))?.lease ?? '0';
    const { grantedTTL } = await direct.leaseClient.leaseTimeToLive({ ID: lease });
    expect(Number(grantedTTL) * 1_000).toBeGreaterThanOrEqual(rememberMs);
    expect(Number(grantedTTL) * 1_000).toBeLessThan(rememberMs + 2_000);
    expect(await second.forget('yearly')).toBe(true);
  });

  it('a rate limit gives only so many permits in a window', async () => {
    const limit = open().rateLimit('rate', { permits: 3, perMs: 2_000 });
    const startedAt = performance.now();
    const taken = await Promise.all([1, 2, 3, 4].map(() => limit.tryTake()));
    expect(taken.filter(Boolean)).toHaveLength(3);
    await limit.take();
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(2_000);
  });

  it('the TTL of a hold can be made longer and shorter', async () => {
    const locks = open();
    const hold = await locks.mutex('extended').acquire({ ttlMs: 5_000 });
    await hold.extend(60_000);
    expect(hold.remainingMs).toBeGreaterThan(50_000);
    await hold.extend(5_000);
    expect(hold.remainingMs).toBeLessThan(7_000);
    expect(await hold.release()).toBe(true);
  });

  it('a hold by handoff lives for its TTL, not for the lease time of a waiter', async () => {
    const locks = open();
    const holder = await locks.mutex('short-hold').acquire();
    const waiting = later(locks.mutex('short-hold').acquire({ ttlMs: 1_500 }));
    await until('nobody waits', async () => (await keysOf('short-hold')).length === 2);
    await holder.release();
    const hold = await waiting;
    expect(hold.remainingMs).toBeLessThanOrEqual(2_000);
    await hold.release();
  });
});

describe.concurrent('queues', () => {
  it('of several tryAcquire calls of one tick, the first is granted', async () => {
    const locks = open();
    for (let round = 0; round < 30; round += 1) {
      const lock = locks.mutex(`tries-${round}`);
      const tries = await Promise.all([lock.tryAcquire(), lock.tryAcquire(), lock.tryAcquire()]);
      expect(tries.map((hold) => hold !== null)).toEqual([true, false, false]);
      await tries[0]?.release();
    }
  });

  it('many attempts of one tick cost no more round trips than a few', async () => {
    const { client, count } = counted(cluster.client());
    const lock = open(client).mutex('stampede');
    const before = count.txns;
    const tries = await Promise.all(Array.from({ length: 200 }, () => lock.tryAcquire()));
    expect(tries.filter((hold) => hold !== null)).toEqual([tries[0]]);
    expect(count.txns - before).toBeLessThanOrEqual(2);
    const again = await Promise.all(Array.from({ length: 200 }, () => lock.tryAcquire()));
    expect(again.filter((hold) => hold !== null)).toEqual([]);
    expect(count.txns - before).toBeLessThanOrEqual(4);
    await tries[0]?.release();
    await (await lock.tryAcquire())?.release();
  });

  it('a hundred waiters are served in order, with one event each and others behind them', async () => {
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
    // Waiters also watch their own keys, and some keys are deleted before that watch has ended.
    expect(count.events - before.events).toBeLessThanOrEqual(110);
    expect(count.txns - before.txns).toBeLessThanOrEqual(260);
    expect(count.watches).toBe(1);
  });

  it('a released permit goes to the first waiter, and there are never too many holders', async () => {
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

  it('a released permit wakes the first waiter, not all of them', async () => {
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
    await until('the waiters never stop asking', async () => {
      const idle = count.txns;
      await sleep(500);
      return count.txns - idle <= 2;
    });
    const before = count.txns;
    await holders[0]?.release();
    await until('nobody was woken', () => order.length === 1);
    await sleep(200);
    // The release, the read of the waiter that now holds, the read of the next waiter, and what extends
    // leases meanwhile. Each of thirty waiters would need one if all were woken.
    expect(count.txns - before).toBeLessThanOrEqual(12);
    await holders[1]?.release();
    for (const hold of line) await (await hold).release();
    expect(order).toEqual(Array.from({ length: 30 }, (_, n) => n));
  });

  it('readers behind a writer are granted together, and a writer waits for the last reader', async () => {
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

  it('more permits than one page of claims are counted correctly', async () => {
    const store = etcdStore(cluster.client());
    atTheEnd(() => store.close());
    const claim = (n: number) => store.claim(request('pages', { id: `p#${n}`, mode: permits(1, 600) }));
    let granted = 0;
    for (let from = 0; from < 620; from += 20) {
      const some = Array.from({ length: 20 }, (_, n) => claim(from + n));
      granted += (await Promise.all(some)).filter((outcome) => outcome.granted).length;
    }
    expect(granted).toBe(600);
  });
});

describe.concurrent('elections', () => {
  it('terms are rising fences, observers see them in order, and a stopped leader hands off', async () => {
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
