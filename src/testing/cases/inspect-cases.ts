import assert from 'node:assert/strict';
import { systemClock } from '../../clock.ts';
import type { HoldfastError } from '../../errors.ts';
import { createLocks } from '../../locks.ts';
import type { Store } from '../../store/store.ts';
import {
  claimUntilGranted,
  freshName,
  LONG_MS,
  needsCounting,
  needsOrder,
  permits,
  request,
  SHARED,
  type StoreCase,
  storeCase,
  withStores,
} from '../store-case.ts';
import { HOSTILE } from './hostile-names.ts';

/** Lists names; `null` where the store cannot recover the names of its locks. */
async function namesOf(store: Store, prefix: string): Promise<string[] | null> {
  const names: string[] = [];
  try {
    for await (const name of store.list(prefix)) names.push(name);
  } catch (error) {
    assert.equal((error as HoldfastError).code, 'UNSUPPORTED');
    return null;
  }
  return names;
}

const coded =
  (code: string) =>
  (error: unknown): boolean =>
    (error as HoldfastError).code === code;

/** Rules 6, 9, 10 and 11: read, list, notes, close. */
export const inspectCases: readonly StoreCase[] = [
  storeCase(11, 'a lock without claims reads as empty', async (_env, a) => {
    assert.deepEqual(await a.read(freshName()), []);
  }),
  storeCase(11, 'reading shows the holder: fence, age, time left, note', async (_env, a, b) => {
    const held = request(freshName(), { note: '{"job":"é"}' });
    const outcome = await a.claim(held);
    const [claim, ...rest] = await b.read(held.name);
    assert.equal(rest.length, 0);
    assert.ok(claim !== undefined && outcome.granted);
    assert.equal(claim.granted, true);
    assert.equal(claim.mode.kind, 'exclusive');
    assert.ok(claim.fence === null || claim.fence === outcome.fence);
    assert.ok(claim.heldForMs === null || (claim.heldForMs >= 0 && claim.heldForMs < 60_000));
    assert.ok(claim.expiresInMs === null || (claim.expiresInMs > 0 && claim.expiresInMs <= LONG_MS + 2_000));
    assert.ok(claim.note === null || claim.note === held.note);
  }),
  storeCase(
    11,
    'a hold is shown with its age since the grant, by its own store and by another',
    async (env, a, b) => {
      const name = freshName();
      const [first, held] = [request(name), request(name, { wait: true })];
      await b.claim(first);
      await a.claim(held);
      await env.pass(200);
      const beforeMs = systemClock.monotonicMs();
      await b.release(first);
      await claimUntilGranted(env, a, held, 5_000);
      await env.pass(60);
      const [own, seen] = await Promise.all(
        [a, b].map(async (store) => (await store.read(name)).find(({ id }) => id === held.id)),
      );
      const tookMs = systemClock.monotonicMs() - beforeMs;
      // Servers count in whole milliseconds, and virtual time passes only when it is asked to.
      const isRight = (ms: number): boolean => ms >= 50 && ms <= tookMs + 65;
      assert.ok(own?.granted && own.heldForMs !== null, 'the age of the hold is not known');
      assert.ok(isRight(own.heldForMs), `held for ${own.heldForMs}`);
      // Another store may not know the age, but must not show a wrong one.
      assert.ok(seen?.granted, 'another store does not see the hold');
      assert.ok(seen.heldForMs === null || isRight(seen.heldForMs), `held for ${seen.heldForMs}, elsewhere`);
      if (a.traits.lifetime === 'session') return;
      for (const { expiresInMs } of [own, seen])
        assert.ok(expiresInMs !== null && expiresInMs > 0 && expiresInMs <= LONG_MS + 2_000);
    },
  ),
  storeCase(
    11,
    'reading shows the holders, then the queue in order, by id',
    async (_env, a, b) => {
      const name = freshName();
      const holders = [request(name, { mode: SHARED }), request(name, { mode: SHARED })];
      const queue = [
        request(name, { wait: true }),
        request(name, { mode: SHARED, wait: true }),
        request(name, { wait: true }),
      ];
      for (const wanted of [...holders, ...queue]) await a.claim(wanted);
      const claims = await b.read(name);
      assert.deepEqual(
        claims
          .filter((claim) => claim.granted)
          .map((claim) => claim.id)
          .sort(),
        holders.map((each) => each.id).sort(),
      );
      assert.deepEqual(
        claims.filter((claim) => !claim.granted).map((claim) => claim.id),
        queue.map((each) => each.id),
      );
      assert.deepEqual(
        claims.slice(2).map((claim) => claim.mode.kind),
        ['exclusive', 'shared', 'exclusive'],
      );
    },
    needsOrder,
  ),
  storeCase(
    11,
    'reading shows how many permits each has',
    async (_env, a, b) => {
      const held = request(freshName(), { mode: permits(2, 5) });
      await a.claim(held);
      assert.deepEqual(
        (await b.read(held.name)).map((claim) => claim.mode),
        [permits(2, 5)],
      );
    },
    needsCounting,
  ),
  storeCase(11, 'a renewal can change the note, and leaves it alone otherwise', async (env, a, b) => {
    const held = request(freshName(), { note: '{"a":1}' });
    await a.claim(held);
    const noteNow = async () => (await b.read(held.name))[0]?.note ?? null;
    if ((await noteNow()) === null) return;
    await a.renew(held, { ttlMs: LONG_MS });
    assert.equal(await noteNow(), '{"a":1}');
    await a.renew(held, { ttlMs: LONG_MS, note: '{"b":2}' });
    // Where a majority is enough, one of the other nodes may still have the old note.
    for (let tries = 0; tries < 50 && (await noteNow()) !== '{"b":2}'; tries += 1) await env.pass(20);
    assert.equal(await noteNow(), '{"b":2}');
  }),
  storeCase(11, 'every name works, and no name sees another', async (_env, a, b) => {
    const prefix = freshName('odd');
    const held = HOSTILE.map((odd) => request(odd.length > 400 ? odd : `${prefix}${odd}`, { note: '{}' }));
    for (const wanted of held)
      assert.equal((await a.claim(wanted)).granted, true, `not granted: ${JSON.stringify(wanted.name)}`);
    for (const wanted of held) {
      assert.equal(
        (await b.claim(request(wanted.name))).granted,
        false,
        `granted twice: ${JSON.stringify(wanted.name)}`,
      );
      assert.deepEqual((await b.read(wanted.name)).filter((claim) => claim.granted).length, 1);
      assert.equal((await a.renew(wanted, { ttlMs: LONG_MS })).held, true);
    }
    for (const wanted of held) assert.equal(await a.release(wanted), true);
    for (const wanted of held) assert.deepEqual(await a.read(wanted.name), []);
  }),
  storeCase(11, 'listing gives the names with a prefix, taken literally, each once', async (_env, a, b) => {
    const prefix = `${freshName('list')}*[a]%_\\`;
    const wanted = [`${prefix}/1`, `${prefix}/2`, `${prefix}?`].map((name) => request(name));
    const other = request(`${prefix.replace('*', 'x')}/1`);
    for (const each of [...wanted, other]) await a.claim(each);
    await a.claim(request(`${prefix}/1`, { wait: true }));
    const names = await namesOf(b, prefix);
    assert.ok(
      names === null ||
        names.sort().join() ===
          wanted
            .map((each) => each.name)
            .sort()
            .join(),
      `listed: ${names}`,
    );
    for (const each of wanted) await a.release(each);
  }),
  storeCase(
    10,
    'a semaphore and a mutex of one name disagree',
    async (_env, a, b) => {
      const name = freshName();
      await a.claim(request(name));
      await assert.rejects(b.claim(request(name, { mode: permits(1, 2) })), coded('MODE_MISMATCH'));
      await assert.rejects(
        b.claim(request(name, { mode: permits(1, 2), wait: true })),
        coded('MODE_MISMATCH'),
      );
    },
    needsCounting,
  ),
  storeCase(
    10,
    'semaphores of one name and another capacity disagree, until it is free',
    async (_env, a, b) => {
      const name = freshName();
      const held = request(name, { mode: permits(1, 2) });
      await a.claim(held);
      await assert.rejects(b.claim(request(name, { mode: permits(1, 3) })), coded('MODE_MISMATCH'));
      await assert.rejects(b.claim(request(name, { mode: SHARED })), coded('MODE_MISMATCH'));
      await a.release(held);
      assert.equal((await b.claim(request(name, { mode: permits(1, 3) }))).granted, true);
    },
    needsCounting,
  ),
  {
    rule: 9,
    name: 'a full queue refuses, and a released queue position is free again',
    leftOut: needsOrder,
    run: async (env) => {
      const store = await env.open({ queueMax: 3 });
      try {
        const name = freshName();
        await store.claim(request(name));
        const queue = [1, 2, 3].map(() => request(name, { wait: true }));
        for (const waiter of queue) await store.claim(waiter);
        await assert.rejects(store.claim(request(name, { wait: true })), coded('QUEUE_FULL'));
        for (const waiter of queue) assert.equal((await store.claim(waiter)).granted, false);
        assert.equal((await store.claim(request(name))).granted, false);
        await store.release(queue[1] ?? request(name));
        assert.equal((await store.claim(request(name, { wait: true }))).granted, false);
      } finally {
        await store.close();
      }
    },
  },
  {
    rule: 6,
    name: 'a closed store refuses, and closing twice is harmless',
    leftOut: () => null,
    run: withStores(1, async (env, a) => {
      const store = await env.open();
      const used = request(freshName());
      await store.claim(used);
      await store.release(used);
      await store.close();
      await store.close();
      const wanted = request(freshName());
      await assert.rejects(store.claim(wanted), coded('CLOSED'));
      await assert.rejects(store.renew(wanted, { ttlMs: LONG_MS }), coded('CLOSED'));
      await assert.rejects(store.release(wanted), coded('CLOSED'));
      await assert.rejects(store.read(wanted.name), coded('CLOSED'));
      await assert.rejects(
        store.watch(wanted, () => {}),
        coded('CLOSED'),
      );
      assert.equal((await a?.claim(wanted))?.granted, true);
    }),
  },
  storeCase(
    2,
    'a store that cannot count has no semaphores and no rate limits',
    async (_env, a) => {
      const locks = createLocks(a);
      assert.throws(() => locks.semaphore('s', { permits: 2 }), coded('UNSUPPORTED'));
      assert.throws(() => locks.rateLimit('s', { permits: 2, perMs: 1_000 }), coded('UNSUPPORTED'));
    },
    (traits) => (traits.counting ? 'the store can count' : null),
  ),
  storeCase(
    4,
    'a store that does not remember has no once and no rate limits',
    async (_env, a) => {
      const locks = createLocks(a);
      await assert.rejects(
        locks.once('o', () => {}),
        coded('UNSUPPORTED'),
      );
      assert.throws(() => locks.rateLimit('s', { permits: 2, perMs: 1_000 }), coded('UNSUPPORTED'));
    },
    (traits) => (traits.remembers ? 'the store remembers' : null),
  ),
  storeCase(
    2,
    'a store without order shows no queue, and still grants every waiter',
    async (env, a, b) => {
      const name = freshName();
      const locks = [createLocks(a), createLocks(b)];
      let inside = 0;
      const enter = async (n: number): Promise<void> => {
        const hold = await locks[n % 2]?.mutex(name, { waitMs: 20_000, ttlMs: env.ttlMs ?? 5_000 }).acquire();
        inside += 1;
        assert.equal((await a.read(name)).filter((claim) => !claim.granted).length, 0);
        await hold?.release();
      };
      await Promise.all([0, 1, 2, 3, 4].map(enter));
      assert.equal(inside, 5);
    },
    (traits) => (traits.ordered ? 'the store keeps order' : null),
  ),
];
