import { beforeAll, describe, expect, it } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { type EtcdClient, etcdStore } from '../../src/stores/etcd/index.ts';
import { Lease } from '../../src/stores/etcd/lease.ts';
import { holdTime, leaseTime } from '../../src/stores/etcd/lease-pool.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { request } from '../../src/testing/store-case.ts';
import { cleanups } from '../support/hooks/cleanups.ts';
import { type EtcdCluster, startEtcdCluster } from '../support/servers/etcd.ts';
import { later } from '../support/waiting/eventually.ts';

describe('the time left of a lease', () => {
  const clock = virtualClock();
  const now = () => ({ monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() });
  const granted = () => new Lease(clock, 10, { id: '1', ttlMs: 10_000, sent: now(), term: 3 });

  it('is counted from the send of the last extension, not from the claim', async () => {
    const lease = granted();
    await clock.advance(4_000);
    expect(lease.validForMs(now())).toBe(6_000);
    const sent = now();
    await clock.advance(1_000);
    expect(lease.confirm({ sent, ttlMs: 10_000, term: 3 }, 3)).toBe(true);
    expect(lease.validForMs(now())).toBe(9_000);
  });

  it('row 51: is not extended by the answer of a member of an older term', async () => {
    const lease = granted();
    await clock.advance(4_000);
    expect(lease.confirm({ sent: now(), ttlMs: 10_000, term: 2 }, 3)).toBe(false);
    expect(lease.confirm({ sent: now(), ttlMs: 0, term: 3 }, 3)).toBe(false);
    expect(lease.validForMs(now())).toBe(6_000);
  });

  it('is not shortened by an answer that comes out of order', async () => {
    const lease = granted();
    const first = now();
    await clock.advance(2_000);
    lease.confirm({ sent: now(), ttlMs: 10_000, term: 3 }, 3);
    lease.confirm({ sent: first, ttlMs: 10_000, term: 3 }, 3);
    expect(lease.validForMs(now())).toBe(10_000);
  });

  it('row 51: is not extended once the leader has changed', () => {
    const lease = granted();
    lease.confirm(null, 3);
    expect([lease.canGoOn, lease.canBeShared]).toEqual([true, true]);
    lease.confirm(null, 4);
    expect([lease.canGoOn, lease.canBeShared]).toEqual([false, false]);
  });

  it('row 5: is reduced by the time that the host has slept', () => {
    const lease = granted();
    clock.jumpWall(7_000);
    expect(lease.validForMs(now())).toBe(3_000);
    expect(lease.leftMs).toBe(3_000);
    clock.jumpWall(-7_000);
  });

  it('is requested in whole seconds: a TTL of whole seconds gets exactly these', () => {
    const asked = [1, 1_000, 1_500, 2_000, 2_001, 2_700, 3_000, 30_000, 86_400_000];
    expect(asked.map((ttlMs) => leaseTime(ttlMs).seconds)).toEqual([1, 1, 2, 2, 3, 3, 3, 30, 86_400]);
  });

  it('of a lease that is shared is at most a sixteenth and a second less than the TTL', () => {
    const least = [1_600, 16_000, 30_000].map((ttlMs) => leaseTime(ttlMs).leastMs);
    expect(least).toEqual([1_500, 15_000, 29_000]);
  });

  it('is never less than the TTL where a claim is not renewed: permits, and what is left behind', () => {
    expect(leaseTime(3_000, true)).toEqual({ seconds: 4, leastMs: 3_000 });
    expect(holdTime(3_000, { kind: 'permits', count: 1, of: 2 })).toEqual({ seconds: 4, leastMs: 3_000 });
    expect(holdTime(3_000, { kind: 'exclusive' }).seconds).toBe(3);
    expect(holdTime(3_000, { kind: 'shared' }).seconds).toBe(3);
  });
});

describe('leases and fences of etcd', () => {
  const atTheEnd = cleanups();
  let cluster: EtcdCluster;
  beforeAll(async () => {
    cluster = await startEtcdCluster({ members: 1 });
    atTheEnd(() => cluster.stop());
  });

  it('row 51: a keep-alive without an answer is sent again beside a transaction of its own', async () => {
    const client = cluster.client();
    const { leaseClient, watchClient } = client;
    const sent: string[] = [];
    const silent = { on: () => {}, write: () => {}, end: () => {}, cancel: () => {} };
    const recording: EtcdClient = {
      watchClient,
      kv: {
        txn: (txn, options) => {
          sent.push('transaction');
          return client.kv.txn(txn as never, options as never);
        },
      },
      leaseClient: {
        leaseGrant: (asked, options) => leaseClient.leaseGrant(asked as never, options as never),
        leaseRevoke: (asked, options) => leaseClient.leaseRevoke(asked as never, options as never),
        leaseTimeToLive: (asked, options) => leaseClient.leaseTimeToLive(asked as never, options as never),
        leaseKeepAlive: async () => {
          sent.push('keep-alive');
          return sent.length === 1 ? silent : await leaseClient.leaseKeepAlive();
        },
      },
    };
    const store = etcdStore(recording);
    atTheEnd(() => store.close());
    const claim = request('unanswered', { ttlMs: 3_000 });
    expect(await store.claim(claim)).toMatchObject({ granted: true });
    sent.length = 0;
    expect(await store.renew(claim, { ttlMs: 3_000 })).toMatchObject({ held: true });
    expect(sent).toEqual(['keep-alive', 'transaction', 'keep-alive', 'transaction']);
  });

  it('a waiter whose process takes other locks meanwhile has the fence of its queue position', async () => {
    const locks = createLocks(etcdStore(cluster.client()));
    atTheEnd(() => locks.close({ drainMs: 0 }));
    const first = await locks.mutex('waited-for').acquire();
    const waiting = later(locks.mutex('waited-for').acquire());
    while ((await locks.inspect('waited-for')).waiters.length === 0);
    const other = await locks.mutex('other').acquire();
    await first.release();
    const second = await waiting;
    expect(second.fence).toBeGreaterThan(first.fence);
    expect(second.fence).toBeLessThan(other.fence);
    await second.release();
    // The next hold has a greater fence than both.
    expect((await locks.mutex('waited-for').acquire()).fence).toBeGreaterThan(other.fence);
  });
});
