import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { LockDetail, LockList, SnapshotEvent } from '../../src/dashboard/index.ts';
import { type ClaimRequest, memoryStore, openLocks } from '../../src/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { EventReader } from './support/event-source.ts';
import { type Served, serve } from './support/served.ts';

const claim = (name: string, id: string, change: Partial<ClaimRequest> = {}): ClaimRequest => ({
  ...{ name, id, mode: { kind: 'exclusive' }, ttlMs: 600_000, wait: false, note: '', fenceAbove: 0n },
  ...change,
});

describe('more locks than are read', () => {
  const COUNT = 20_000;
  let served: Served;
  beforeAll(async () => {
    const store = memoryStore();
    for (let n = 0; n < COUNT + 100; n += 1)
      await store.claim(claim(`lock-${String(n).padStart(5, '0')}`, 'x'));
    served = await serve({ store });
  });
  afterAll(async () => {
    await served?.[Symbol.asyncDispose]();
  });

  it('are listed in part and page by page, and the answer says so', async () => {
    const first = await served.read<LockList>('/api/locks');
    expect([first.total, first.locks.length, first.isTruncated]).toEqual([COUNT, 100, true]);
    const names: string[] = [];
    for (let next: string | null = '0'; next !== null; ) {
      const page: LockList = await served.read<LockList>(`/api/locks?limit=1000&cursor=${next}`);
      expect(page.locks.length).toBeLessThanOrEqual(1_000);
      names.push(...page.locks.map(({ name }) => name));
      next = page.next;
    }
    expect(names).toEqual(Array.from({ length: COUNT }, (_, n) => `lock-${String(n).padStart(5, '0')}`));
  });

  it('are streamed in parts', async () => {
    const events = new EventReader((await served.get('/api/events')).body);
    const seen = new Set<string>();
    for (let parts = 1, part = 0; part < parts; part += 1) {
      const event = await events.until<SnapshotEvent>('snapshot', (each) => each.part === part);
      parts = event.parts;
      expect([event.locks.length, event.total, event.isTruncated]).toEqual([500, COUNT, true]);
      for (const { name } of event.locks) seen.add(name);
    }
    expect(seen.size).toBe(COUNT);
    await events.close();
  });
});

describe('locks on Redis', () => {
  it('are listed with their holders and waiters', async () => {
    const redis = await startRedis();
    const locks = await openLocks(redis.url, { commandMs: 30_000 });
    await using served = await serve({ locks });
    const names = Array.from({ length: 600 }, (_, n) => `lock-${n}`);
    await Promise.all(names.map((name) => locks.mutex(name).acquire()));
    const waiting = locks.mutex('lock-0').acquire({ waitMs: 60_000 });
    waiting.catch(() => {});
    await eventually('the waiter', async () => (await locks.inspect('lock-0')).waiters.length === 1);
    const list = await served.read<LockList>('/api/locks?limit=1000');
    expect(list.locks.map(({ name }) => name)).toEqual([...names].sort());
    const [contended] = (await served.read<LockList>('/api/locks?state=contended')).locks;
    expect(contended).toMatchObject({ name: 'lock-0', holders: [{ owner: locks.owner }], waiterCount: 1 });
    await locks.close({ drainMs: 0 });
    await redis.stop();
  });
});

describe('5,000 waiters of one lock', () => {
  it('are counted in the list, and shown in order page by page', async () => {
    const store = memoryStore();
    await store.claim(claim('hot', 'holder'));
    for (let n = 0; n < 5_000; n += 1) await store.claim(claim('hot', `waiter-${n}`, { wait: true }));
    await using served = await serve({ store });
    const { locks } = await served.read<LockList>('/api/locks');
    expect(locks).toMatchObject([{ name: 'hot', holderCount: 1, waiterCount: 5_000 }]);
    expect((await served.read<LockDetail>('/api/lock?name=hot')).waiters).toHaveLength(200);
    const { waiters, waiterOffset } = await served.read<LockDetail>(
      '/api/lock?name=hot&waiterOffset=4990&waiterLimit=5000',
    );
    expect(waiterOffset).toBe(4_990);
    expect(waiters.map(({ id }) => id)).toEqual(Array.from({ length: 10 }, (_, n) => `waiter-${4_990 + n}`));
    const whole = await served.read<LockDetail>('/api/lock?name=hot&waiterLimit=5000');
    expect(whole.waiters).toHaveLength(5_000);
    expect(whole.timeline.spans).toHaveLength(50);
  });
});

describe('a list', () => {
  let served: Served;
  beforeAll(async () => {
    served = await serve({ locksOptions: { owner: 'me' } });
    const { locks } = served;
    await locks.mutex('order:1').acquire();
    await locks.mutex('order:2', { ttlMs: 60_000 }).acquire();
    void locks
      .mutex('order:2')
      .acquire({ waitMs: 60_000 })
      .catch(() => {});
    await locks.semaphore('pool', { permits: 3 }).acquire();
    await locks.readWriteLock('book').read.acquire();
    await locks.once('import', () => {});
    await locks.rateLimit('mail', { permits: 2, perMs: 60_000 }).take();
  });
  afterAll(async () => {
    await served?.[Symbol.asyncDispose]();
  });
  const names = async (query: string): Promise<string[]> =>
    (await served.read<LockList>(`/api/locks?${query}`)).locks.map(({ name }) => name);

  it.each([
    ['', ['book', 'import', 'mail', 'order:1', 'order:2', 'pool']],
    ['prefix=order:', ['order:1', 'order:2']],
    ['use=once', ['import']],
    ['use=lock&kind=permits', ['pool']],
    ['kind=shared', ['book']],
    ['state=contended', ['order:2']],
    ['state=long-held', []],
    ['state=expiring', []],
    ['sort=waiters&order=desc&limit=1', ['order:2']],
    ['sort=expiry&prefix=order:&order=desc', ['order:2', 'order:1']],
    ['sort=name&order=desc&prefix=order:', ['order:2', 'order:1']],
    ['limit=2&cursor=2', ['mail', 'order:1']],
  ])('is filtered and sorted: %s', async (query, expected) => {
    expect(await names(query)).toEqual(expected);
  });

  it('shows what each lock is', async () => {
    const { locks } = await served.read<LockList>('/api/locks');
    expect(
      locks.map(({ name, use, kind, permits, done, holderCount }) => [
        name,
        use,
        kind,
        permits,
        done,
        holderCount,
      ]),
    ).toEqual([
      ['book', 'lock', 'shared', null, false, 1],
      ['import', 'once', 'exclusive', null, true, 0],
      ['mail', 'rateLimit', 'permits', 2, false, 1],
      ['order:1', 'lock', 'exclusive', null, false, 1],
      ['order:2', 'lock', 'exclusive', null, false, 1],
      ['pool', 'lock', 'permits', 3, false, 1],
    ]);
  });

  it.each(['use=mutex', 'kind=x', 'state=x', 'sort=x', 'order=x', 'limit=-1', 'limit=1001', 'cursor=x'])(
    'is refused for a query that means nothing: %s',
    async (query) => {
      expect((await served.get(`/api/locks?${query}`)).status).toBe(400);
    },
  );
});
