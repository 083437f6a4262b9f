import { describe, expect, it } from 'vitest';
import { createDashboard, type LockList } from '../../src/dashboard/index.ts';
import { createLocks, memoryStore, type Store } from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { pause } from '../../src/util/backoff.ts';

/** A dashboard in virtual time, over a store whose reads take a while and are counted. */
function slowReads({ readMs, names = [] }: { readMs: number; names?: readonly string[] }) {
  const clock = virtualClock();
  const inner = memoryStore({ clock });
  const counts = { reads: 0, reading: 0, most: 0 };
  const store = Object.assign(Object.create(inner) as Store, {
    traits: inner.traits,
    claim: inner.claim.bind(inner),
    renew: inner.renew.bind(inner),
    release: inner.release.bind(inner),
    evict: inner.evict.bind(inner),
    watch: inner.watch.bind(inner),
    close: inner.close.bind(inner),
    list: async function* (prefix: string) {
      yield* names;
      yield* inner.list(prefix);
    },
    read: async (name: string) => {
      counts.reads += 1;
      counts.reading += 1;
      counts.most = Math.max(counts.most, counts.reading);
      await pause(clock, readMs);
      counts.reading -= 1;
      return await inner.read(name);
    },
  });
  const locks = createLocks(store, { clock, ttlMs: 3_600_000, renew: false });
  const dashboard = createDashboard(locks, { access: () => 'read' });
  const get = (path: string): Promise<Response> => dashboard.fetch(new Request(`http://localhost${path}`));
  return { clock, locks, counts, get };
}

describe('a scan', () => {
  it('reads many locks at once, and not all of them', async () => {
    const { clock, locks, counts, get } = slowReads({ readMs: 100 });
    for (let n = 0; n < 200; n += 1) await locks.mutex(`lock-${n}`).acquire();
    const answer = get('/api/locks?limit=1000');
    await clock.advance(1_000);
    expect(((await (await answer).json()) as LockList).total).toBe(200);
    expect(counts.most).toBe(64);
    await locks.close({ drainMs: 0 });
  });

  it('ends after a minute, also when the store lists without end', async () => {
    const clock = virtualClock();
    const inner = memoryStore({ clock });
    const store = Object.assign(Object.create(inner) as Store, {
      traits: inner.traits,
      close: inner.close.bind(inner),
      read: inner.read.bind(inner),
      list: async function* () {
        // Slots of one schedule after another: no lock among them.
        for (let n = 0; ; n += 1) {
          await pause(clock, 1_000);
          yield `schedule\u001ftick\u001f${n.toString(36)}`;
        }
      },
    });
    const locks = createLocks(store, { clock });
    const dashboard = createDashboard(locks, { access: () => 'read' });
    const answer = dashboard.fetch(new Request('http://localhost/api/locks'));
    await clock.advance(70_000);
    expect(((await (await answer).json()) as LockList).isTruncated).toBe(true);
    await locks.close();
  });
});

describe('reads of single locks', () => {
  it('are 32 at once: more are asked to come back', async () => {
    const { clock, locks, counts, get } = slowReads({ readMs: 100 });
    const answers = Array.from({ length: 40 }, (_, n) => get(`/api/lock?name=lock-${n}`));
    await clock.advance(200);
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(32);
    const refused = (await Promise.all(answers)).find(({ status }) => status === 503);
    expect(refused?.headers.get('retry-after')).toBe('1');
    expect(counts.most).toBe(32);
    const later = get('/api/lock?name=lock-39');
    await clock.advance(200);
    expect((await later).status).toBe(200);
    await locks.close();
  });

  it('are shared by the viewers of a lock for a second, together with the answer', async () => {
    const { clock, locks, counts, get } = slowReads({ readMs: 1 });
    await locks.mutex('hot').acquire();
    const read = async (query = ''): Promise<string> => {
      const answer = get(`/api/lock?name=hot${query}`);
      await clock.advance(2);
      return await (await answer).text();
    };
    const first = await read();
    expect(await read()).toBe(first);
    // Another part of the queue is another answer, from the same read.
    expect(JSON.parse(await read('&waiterOffset=7'))).toMatchObject({ waiterOffset: 7 });
    expect(counts.reads).toBe(1);
    await clock.advance(1_000);
    await read();
    expect(counts.reads).toBe(2);
    await locks.close({ drainMs: 0 });
  });
});
