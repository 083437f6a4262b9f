import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { createDashboard, type DeltaEvent, type SnapshotEvent } from '../../src/dashboard/index.ts';
import { createLocks, memoryStore, type Store } from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { pause } from '../../src/util/backoff.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { EventReader } from './support/event-source.ts';
import { serve } from './support/served.ts';

/** Counts what the store is asked. */
function counted(store: Store): { store: Store; counts: { list: number; read: number } } {
  const counts = { list: 0, read: 0 };
  const counting = Object.assign(Object.create(store) as Store, {
    traits: store.traits,
    claim: store.claim.bind(store),
    renew: store.renew.bind(store),
    release: store.release.bind(store),
    evict: store.evict.bind(store),
    watch: store.watch.bind(store),
    close: store.close.bind(store),
    list: (prefix: string) => {
      counts.list += 1;
      return store.list(prefix);
    },
    read: (name: string) => {
      counts.read += 1;
      return store.read(name);
    },
  });
  return { store: counting, counts };
}

const LOCKS = 10;
const VIEWERS = 1_000;

describe('viewers', () => {
  it('share one scan of the store, a thousand of them too', async () => {
    const { store, counts } = counted(memoryStore());
    await using served = await serve({ store });
    for (let n = 0; n < LOCKS; n += 1) await served.locks.mutex(`lock-${n}`).acquire();
    const startedMs = performance.now();
    let received = 0;
    const sent = Array.from({ length: VIEWERS }, () =>
      request(`${served.url}/api/events`, (answer) => {
        answer.once('data', () => {
          received += 1;
        });
        answer.on('error', () => {});
      }),
    );
    for (const each of sent) each.on('error', () => {}).end();
    const watching = new EventReader((await served.get('/api/events')).body);
    await watching.until<SnapshotEvent>('snapshot');
    await eventually('every viewer is connected', () => received === VIEWERS, 100_000);
    const before = { ...counts };
    for (const name of ['seen-1', 'seen-2']) {
      await served.locks.mutex(name).acquire();
      await watching.until<DeltaEvent>('delta', ({ changed }) => changed.some((lock) => lock.name === name));
    }
    const scans = counts.list - before.list;
    expect(scans).toBeGreaterThanOrEqual(2);
    expect(counts.list).toBeLessThanOrEqual((performance.now() - startedMs) / 1_000 + 2);
    // One read of each lock in each scan, however many viewers there are.
    expect(counts.read).toBeLessThanOrEqual(counts.list * (LOCKS + 2));
    for (const each of sent) each.destroy();
    await watching.close();
  }, 120_000);

  it('are 2,000 at most: one more is asked to come back later', async () => {
    const clock = virtualClock();
    const locks = createLocks(memoryStore({ clock }), { clock });
    const dashboard = createDashboard(locks, { access: () => 'read' });
    const open = (): Promise<Response> => dashboard.fetch(new Request('http://localhost/api/events'));
    const opened = await Promise.all(Array.from({ length: 2_000 }, open));
    expect(opened.every(({ status }) => status === 200)).toBe(true);
    const refused = await open();
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '10']);
    await opened[0]?.body?.cancel();
    expect((await open()).status).toBe(200);
    await dashboard.close();
    await locks.close();
  });

  it('wait ten times as long for the next scan as a scan takes', async () => {
    const clock = virtualClock();
    const { store, counts } = counted(memoryStore({ clock }));
    const slow = Object.assign(Object.create(store) as Store, {
      list: async function* (prefix: string) {
        await pause(clock, 500);
        yield* store.list(prefix);
      },
    });
    const locks = createLocks(slow, { clock });
    const dashboard = createDashboard(locks, { access: () => 'read' });
    const { body } = await dashboard.fetch(new Request('http://localhost/api/events'));
    const events = new EventReader(body);
    void (async () => {
      while ((await events.next()) !== null);
    })();
    await clock.advance(55_000);
    // One in 5.5 s. Without the pause it would be one in 1.5 s.
    expect(counts.list).toBeGreaterThanOrEqual(9);
    expect(counts.list).toBeLessThanOrEqual(11);
    await events.close();
    await dashboard.close();
    await locks.close();
  });

  it('cost the store nothing when they have left', async () => {
    const clock = virtualClock();
    const { store, counts } = counted(memoryStore({ clock }));
    const locks = createLocks(store, { clock });
    const dashboard = createDashboard(locks, { access: () => 'read' });
    const open = async () =>
      new EventReader((await dashboard.fetch(new Request('http://localhost/api/events'))).body);
    const [first, second] = [await open(), await open()];
    await clock.advance(5_500);
    expect(counts.list).toBe(6);
    await first.close();
    await clock.advance(2_000);
    expect(counts.list).toBe(8);
    await second.close();
    await clock.advance(60_000);
    expect([counts.list, clock.timers]).toEqual([8, 0]);
    await locks.close();
  });

  it('are asked for their access again: a stream ends after 10 minutes', async () => {
    const clock = virtualClock();
    const locks = createLocks(memoryStore({ clock }), { clock });
    const dashboard = createDashboard(locks, { access: () => 'read' });
    const { body } = await dashboard.fetch(new Request('http://localhost/api/events'));
    const events = new EventReader(body);
    let hasEnded = false;
    const read = (async () => {
      while ((await events.next()) !== null);
      hasEnded = true;
    })();
    await clock.advance(599_000);
    expect(hasEnded).toBe(false);
    await clock.advance(2_000);
    await read;
    await locks.close();
  });
});

describe('a viewer that does not read', () => {
  it('is dropped after 30 seconds, and the store is left alone', async () => {
    const clock = virtualClock();
    const { store, counts } = counted(memoryStore({ clock }));
    const locks = createLocks(store, { clock, ttlMs: 600_000, renew: false });
    const dashboard = createDashboard(locks, { access: () => 'read' });
    await dashboard.fetch(new Request('http://localhost/api/events'));
    for (let n = 0; n < 40; n += 1) {
      await locks.mutex(`lock-${n}`).acquire();
      await clock.advance(1_000);
    }
    const { list } = counts;
    expect(list).toBeLessThan(35);
    await clock.advance(10_000);
    expect(counts.list).toBe(list);
    await locks.close({ drainMs: 0 });
  });

  it('gets the whole list instead of more than 16 messages', async () => {
    const clock = virtualClock();
    const locks = createLocks(memoryStore({ clock }), { clock, ttlMs: 600_000, renew: false });
    const dashboard = createDashboard(locks, { access: () => 'read' });
    const { body } = await dashboard.fetch(new Request('http://localhost/api/events'));
    const events = new EventReader(body);
    await clock.advance(500);
    await events.until<SnapshotEvent>('snapshot');
    const acquireLater = async (name: string): Promise<void> => {
      await locks.mutex(name).acquire();
      await clock.advance(1_000);
    };
    for (let n = 0; n < 12; n += 1) await acquireLater(`kept-${n}`);
    expect(await events.next()).toMatchObject({ event: 'delta', data: { changed: [{ name: 'kept-0' }] } });
    for (let n = 0; n < 8; n += 1) await acquireLater(`skipped-${n}`);
    expect(await events.next()).toMatchObject({ event: 'snapshot', data: { total: 20, part: 0, parts: 1 } });
    await acquireLater('one-more');
    expect(await events.next()).toMatchObject({ event: 'delta', data: { changed: [{ name: 'one-more' }] } });
    await events.close();
    await locks.close({ drainMs: 0 });
  });

  it('is disconnected when its socket takes nothing for 30 seconds', async () => {
    const clock = virtualClock();
    const store = memoryStore({ clock });
    await using served = await serve({ store, locksOptions: { clock } });
    const accepted: Socket[] = [];
    served.server.on('connection', (each: Socket) => accepted.push(each));
    const terms = { ttlMs: 3_600_000, wait: false, note: '', fenceAbove: 0n };
    // More than the buffers of two sockets take.
    const id = 'x'.repeat(100_000);
    const names = Array.from({ length: 160 }, (_, n) => `lock-${n}`);
    for (const name of names) await store.claim({ name, id, mode: { kind: 'exclusive' }, ...terms });
    const socket = connect(Number(new URL(served.url).port), '127.0.0.1', () => {
      socket.pause();
      socket.write('GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n');
    });
    socket.on('error', () => {});
    await eventually('the list is on its way, and stuck', async () => {
      await clock.advance(100);
      return (accepted[0]?.writableLength ?? 0) > 0;
    });
    // Later scans have nothing to do.
    for (const name of names) await store.release({ name, id });
    await clock.advance(20_000);
    expect(accepted[0]?.destroyed).toBe(false);
    await clock.advance(11_000);
    expect(accepted[0]?.destroyed).toBe(true);
    socket.destroy();
  });
});
