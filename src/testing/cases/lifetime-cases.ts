import assert from 'node:assert/strict';
import type { Store } from '../../store/store.ts';
import {
  claimUntilGranted,
  EXCLUSIVE,
  freshName,
  LONG_MS,
  needsBoth,
  needsLease,
  needsMemory,
  needsOrder,
  request,
  SHARED,
  type StoreCase,
  storeCase,
  timedCase,
} from '../store-case.ts';

/** The longest time for which `once` remembers a run. */
const YEAR_MS = 366 * 86_400_000;

const ttlOf = (env: { ttlMs?: number | undefined }): number => env.ttlMs ?? 300;

const placesRunOut: StoreCase['leftOut'] = (traits, env) =>
  needsBoth(needsOrder, needsLease)(traits, env) ??
  (env.timeIsFree ? null : 'queue positions live for many seconds; a test of each store shows it');

/** Rules 4 and 7: how long a claim lives, and which calls end it. */
export const lifetimeCases: readonly StoreCase[] = [
  timedCase(4, 'an unrenewed hold expires, and not before the time it was granted for', async (env, a, b) => {
    const name = freshName();
    const held = await a.claim(request(name, { ttlMs: env.ttlMs }));
    assert.ok(held.granted && held.validForMs > 0);
    await env.pass(held.validForMs * 0.5);
    assert.equal((await b.claim(request(name))).granted, false);
    await claimUntilGranted(env, b, request(name), held.validForMs + 2_000);
  }),
  timedCase(
    4,
    'a waiter is granted when the hold ahead expires, within its TTL and a second',
    async (env, a, b) => {
      const name = freshName();
      const held = await a.claim(request(name, { ttlMs: env.ttlMs }));
      assert.ok(held.granted);
      const waiter = request(name, { wait: true });
      assert.equal((await b.claim(waiter)).granted, false);
      await claimUntilGranted(env, b, waiter, held.validForMs + 1_000);
    },
  ),
  timedCase(4, 'a renewed hold outlives its first TTL', async (env, a, b) => {
    const wanted = request(freshName(), { ttlMs: env.ttlMs });
    await a.claim(wanted);
    for (let round = 0; round < 3; round += 1) {
      await env.pass(env.ttlMs * 0.6);
      const renewed = await a.renew(wanted, { ttlMs: env.ttlMs });
      assert.ok(renewed.held && renewed.validForMs > 0);
    }
    assert.equal((await b.claim(request(wanted.name))).granted, false);
  }),
  storeCase(
    4,
    'a hold outlives the connection it was taken on',
    async (env, a, b) => {
      const wanted = request(freshName());
      const other = await env.open();
      await other.claim(wanted);
      await other.close();
      assert.equal((await b.claim(request(wanted.name))).granted, false);
      assert.equal(await a.release(wanted), true);
    },
    needsLease,
  ),
  storeCase(
    4,
    'a claim of 366 days is stored, read and renewed',
    async (_env, a, b) => {
      const name = freshName();
      // The second claim finds a lock that was in use before, which a store may take another way.
      for (const mode of [EXCLUSIVE, EXCLUSIVE, SHARED]) {
        const held = request(name, { mode, ttlMs: YEAR_MS });
        const outcome = await a.claim(held);
        assertYear(outcome.granted && outcome.validForMs);
        await readsAsYear(b, name);
        assert.equal((await a.renew(held, { ttlMs: LONG_MS })).held, true);
        const renewed = await a.renew(held, { ttlMs: YEAR_MS, note: 'done' });
        assertYear(renewed.held && renewed.validForMs);
        await readsAsYear(b, name);
        const waiter = request(name, { wait: true });
        assert.equal((await b.claim(waiter)).granted, false);
        await readsAsYear(b, name);
        await b.release(waiter);
        assert.equal(await a.release(held), true);
      }
    },
    needsMemory,
  ),
  storeCase(
    4,
    'a session that is closed releases its locks',
    async (env, _a, b) => {
      const wanted = request(freshName());
      const other = await env.open();
      assert.equal((await other.claim(wanted)).granted, true);
      await other.close();
      await claimUntilGranted(env, b, request(wanted.name), 10_000);
    },
    (traits) => (traits.lifetime === 'session' ? null : 'claims have a TTL of their own'),
  ),
  storeCase(
    1,
    'a queue position whose claim is not sent again is passed over in the end',
    async (env, a, b) => {
      const name = freshName();
      const held = request(name, { ttlMs: LONG_MS });
      await a.claim(held);
      await a.claim(request(name, { wait: true, ttlMs: 1_000 }));
      const alive = request(name, { wait: true });
      await b.claim(alive);
      await a.release(held);
      await claimUntilGranted(env, b, alive, 120_000);
    },
    placesRunOut,
  ),
  storeCase(
    1,
    'a queue position whose claim is not sent again is gone in the end, also under a hold',
    async (env, a, b) => {
      const name = freshName();
      const held = request(name, { ttlMs: LONG_MS });
      const dead = request(name, { wait: true, ttlMs: 1_000 });
      const alive = request(name, { wait: true });
      await a.claim(held);
      await a.claim(dead);
      await b.claim(alive);
      for (let spentMs = 0; spentMs < 120_000; spentMs += 5_000) {
        await env.pass(5_000);
        await a.renew(held, { ttlMs: LONG_MS });
        await b.claim(alive);
      }
      assert.deepEqual(
        (await b.read(name)).filter((claim) => !claim.granted).map((claim) => claim.id),
        [alive.id],
      );
    },
    placesRunOut,
  ),
  storeCase(7, 'renewing never creates', async (_env, a) => {
    const wanted = request(freshName());
    assert.equal((await a.renew(wanted, { ttlMs: LONG_MS })).held, false);
    assert.equal((await a.read(wanted.name)).length, 0);
    await a.claim(wanted);
    await a.release(wanted);
    assert.equal((await a.renew(wanted, { ttlMs: LONG_MS })).held, false);
    assert.equal((await a.read(wanted.name)).length, 0);
  }),
  storeCase(7, 'renewing a waiting claim does not make it a hold', async (_env, a, b) => {
    const name = freshName();
    await a.claim(request(name));
    const waiter = request(name, { wait: true });
    await b.claim(waiter);
    assert.equal((await b.renew(waiter, { ttlMs: LONG_MS })).held, false);
  }),
  storeCase(
    7,
    'an expired hold that another has now cannot be renewed or released by the first',
    async (env, a, b) => {
      const name = freshName();
      const first = request(name, { ttlMs: ttlOf(env) });
      const granted = await a.claim(first);
      const second = request(name);
      await claimUntilGranted(env, b, second, (granted.granted ? granted.validForMs : 0) + 2_000);
      assert.equal((await a.renew(first, { ttlMs: LONG_MS })).held, false);
      assert.equal(await a.release(first), false);
      assert.equal((await a.claim(request(name))).granted, false);
      assert.equal(await b.release(second), true);
    },
    needsLease,
  ),
  storeCase(7, 'release says whether it removed the claim, and removes no other', async (_env, a, b) => {
    const name = freshName();
    const held = request(name);
    await a.claim(held);
    assert.equal(await b.release(request(name)), false);
    assert.equal((await b.claim(request(name))).granted, false);
    assert.equal(await a.release(held), true);
    assert.equal(await a.release(held), false);
    assert.equal((await b.claim(request(name))).granted, true);
  }),
  storeCase(7, 'one reader of several can be released alone', async (_env, a, b) => {
    const name = freshName();
    const [one, two] = [request(name, { mode: SHARED }), request(name, { mode: SHARED })];
    await a.claim(one);
    await b.claim(two);
    assert.equal(await a.release(one), true);
    assert.equal((await b.renew(two, { ttlMs: LONG_MS })).held, true);
    assert.equal((await a.renew(one, { ttlMs: LONG_MS })).held, false);
  }),
  storeCase(7, 'a queue position can be released, also in the middle', async (env, a, b) => {
    const name = freshName();
    const held = request(name);
    const waiters = [
      request(name, { wait: true }),
      request(name, { wait: true }),
      request(name, { wait: true }),
    ] as const;
    await a.claim(held);
    for (const waiter of waiters) await b.claim(waiter);
    await b.release(waiters[1]);
    await b.release(waiters[0]);
    await a.release(held);
    await claimUntilGranted(env, b, waiters[2], 5_000);
  }),
  storeCase(7, 'evict takes the hold from exactly that claim', async (env, a, b) => {
    const name = freshName();
    const held = request(name);
    await a.claim(held);
    assert.equal(await b.evict(request(name)), false);
    assert.equal((await a.renew(held, { ttlMs: LONG_MS })).held, true);
    assert.equal(await b.evict(held), true);
    await untilLost(env, a, held);
    await claimUntilGranted(env, b, request(name), 5_000);
  }),
];

async function readsAsYear(store: Store, name: string): Promise<void> {
  const [holder] = await store.read(name);
  assert.equal(holder?.granted, true);
  assertYear(holder?.expiresInMs ?? false);
}

/** A store may round a TTL, and takes from it what the clocks may differ by. */
function assertYear(ms: number | false): void {
  assert.ok(ms !== false && ms > YEAR_MS * 0.98 && ms < YEAR_MS + 2_000, `${ms} ms are not a year`);
}

/** A session store has to ask the process of the holder, so an eviction may take a moment. */
async function untilLost(
  env: { pass(ms: number): Promise<void> },
  store: Store,
  claim: { name: string; id: string },
): Promise<void> {
  for (let tries = 0; tries < 250; tries += 1) {
    if (!(await store.renew(claim, { ttlMs: LONG_MS })).held) return;
    await env.pass(20);
  }
  assert.fail('the evicted claim can still be renewed');
}
