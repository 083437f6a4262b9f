import assert from 'node:assert/strict';
import type { ClaimRequest, Store } from '../../store/store.ts';
import {
  claimUntilGranted,
  EXCLUSIVE,
  freshName,
  needsBoth,
  needsCounting,
  needsOrder,
  permits,
  request,
  SHARED,
  type StoreCase,
  storeCase,
  timedCase,
} from '../store-case.ts';

/** Rules 1 and 2: one attempt, idempotent by id; a grant is never spurious. */
export const claimCases: readonly StoreCase[] = [
  storeCase(1, 'a free lock is granted', async (_env, a) => {
    const outcome = await a.claim(request(freshName()));
    assert.equal(outcome.granted, true);
    assert.ok(outcome.granted && outcome.fence > 0n && outcome.validForMs > 0);
  }),
  storeCase(1, 'a held lock is refused at once, to other connections and to our own', async (_env, a, b) => {
    const name = freshName();
    assert.equal((await a.claim(request(name))).granted, true);
    assert.equal((await b.claim(request(name))).granted, false);
    assert.equal((await a.claim(request(name))).granted, false);
  }),
  storeCase(1, 'a refusal says when to ask again, or null', async (_env, a, b) => {
    const name = freshName();
    await a.claim(request(name));
    const outcome = await b.claim(request(name, { wait: true }));
    assert.ok(!outcome.granted && (outcome.retryAfterMs === null || outcome.retryAfterMs >= 0));
  }),
  storeCase(1, 'a holder that asks again gets the same grant', async (_env, a) => {
    const name = freshName();
    const wanted = request(name);
    const first = await a.claim(wanted);
    const second = await a.claim(wanted);
    assert.ok(first.granted && second.granted);
    assert.equal(second.fence, first.fence);
    assert.equal((await a.read(name)).length, 1);
  }),
  storeCase(1, 'two requests by one id at once are one claim', async (_env, a) => {
    const wanted = request(freshName());
    const [first, second] = await Promise.all([a.claim(wanted), a.claim(wanted)]);
    assert.ok(first?.granted && second?.granted);
    assert.equal(first.fence, second.fence);
    assert.equal((await a.read(wanted.name)).length, 1);
    assert.equal(await a.release(wanted), true);
    assert.equal((await a.read(wanted.name)).length, 0);
  }),
  timedCase(1, 'a holder that asks again renews its lease', async (env, a, b) => {
    const wanted = request(freshName(), { ttlMs: env.ttlMs });
    await a.claim(wanted);
    await env.pass(env.ttlMs * 0.6);
    const again = await a.claim(wanted);
    await env.pass(env.ttlMs * 0.6);
    assert.ok(again.granted);
    assert.equal((await b.claim(request(wanted.name))).granted, false);
  }),
  storeCase(1, 'a refused claim that does not wait leaves no queue position', async (_env, a, b) => {
    const name = freshName();
    const held = request(name);
    await a.claim(held);
    await b.claim(request(name, { wait: false }));
    await a.release(held);
    assert.equal((await a.claim(request(name))).granted, true);
  }),
  storeCase(
    1,
    'asking again keeps the queue position',
    async (env, a, b) => {
      const name = freshName();
      const held = request(name);
      const [first, second] = [request(name, { wait: true }), request(name, { wait: true })];
      await a.claim(held);
      await a.claim(first);
      await b.claim(second);
      assert.equal((await a.claim(first)).granted, false);
      await a.release(held);
      assert.equal((await b.claim(second)).granted, false);
      await claimUntilGranted(env, a, first, 5_000);
    },
    needsOrder,
  ),
  storeCase(2, 'of many claims at once one is granted', async (_env, a, b) => {
    const name = freshName();
    const claims = Array.from({ length: 20 }, (_, n) => (n % 2 ? a : b).claim(request(name)));
    const granted = (await Promise.all(claims)).filter((outcome) => outcome.granted);
    assert.ok(granted.length <= 1, `${granted.length} claims were granted`);
  }),
  storeCase(2, 'readers share, a writer does not', async (_env, a, b) => {
    const name = freshName();
    const readers = [request(name, { mode: SHARED }), request(name, { mode: SHARED })] as const;
    assert.equal((await a.claim(readers[0])).granted, true);
    assert.equal((await b.claim(readers[1])).granted, true);
    assert.equal((await a.claim(request(name))).granted, false);
    await a.release(readers[0]);
    assert.equal((await a.claim(request(name))).granted, false);
    await b.release(readers[1]);
    assert.equal((await a.claim(request(name))).granted, true);
    assert.equal((await b.claim(request(name, { mode: SHARED }))).granted, false);
  }),
  storeCase(
    2,
    'permits are counted, also several at a time',
    async (_env, a, b) => {
      const name = freshName();
      const three = request(name, { mode: permits(3, 5) });
      assert.equal((await a.claim(three)).granted, true);
      assert.equal((await b.claim(request(name, { mode: permits(3, 5) }))).granted, false);
      assert.equal((await b.claim(request(name, { mode: permits(2, 5) }))).granted, true);
      assert.equal((await a.claim(request(name, { mode: permits(1, 5) }))).granted, false);
      await a.release(three);
      assert.equal((await b.claim(request(name, { mode: permits(3, 5) }))).granted, true);
    },
    needsCounting,
  ),
  storeCase(
    2,
    'never more permits at once than there are',
    async (_env, a, b) => {
      const name = freshName();
      const counts = Array.from({ length: 24 }, (_, n) => 1 + (n % 3));
      const outcomes = await Promise.all(
        counts.map((count, n) => (n % 2 ? a : b).claim(request(name, { mode: permits(count, 7) }))),
      );
      const inUse = counts.filter((_, n) => outcomes[n]?.granted).reduce((sum, count) => sum + count, 0);
      assert.ok(inUse <= 7, `${inUse} of 7 permits are in use`);
    },
    needsCounting,
  ),
  storeCase(
    2,
    'the queue is served first come, first served',
    async (env, a, b) => {
      const name = freshName();
      const held = request(name);
      await a.claim(held);
      const waiters = Array.from({ length: 5 }, () => request(name, { wait: true }));
      const enterBy = (waiter: ClaimRequest): Store => (waiters.indexOf(waiter) % 2 ? a : b);
      for (const waiter of waiters) assert.equal((await enterBy(waiter).claim(waiter)).granted, false);
      // Only the session of a claim can send it again.
      const askBy = (waiter: ClaimRequest): Store => (a.traits.lifetime === 'session' ? enterBy(waiter) : a);
      let before = held;
      for (const waiter of waiters) {
        await a.release(before);
        const behind = waiters.slice(waiters.indexOf(waiter) + 1);
        for (const later of behind) assert.equal((await askBy(later).claim(later)).granted, false);
        await claimUntilGranted(env, askBy(waiter), waiter, 5_000);
        before = waiter;
      }
    },
    needsOrder,
  ),
  storeCase(
    2,
    'a waiting writer is not overtaken by readers, and those behind it enter together',
    async (env, a, b) => {
      const name = freshName();
      const reader = request(name, { mode: SHARED });
      const writer = request(name, { mode: EXCLUSIVE, wait: true });
      const later = [
        request(name, { mode: SHARED, wait: true }),
        request(name, { mode: SHARED, wait: true }),
      ] as const;
      await a.claim(reader);
      await b.claim(writer);
      for (const each of later) assert.equal((await a.claim(each)).granted, false);
      await a.release(reader);
      await claimUntilGranted(env, b, writer, 5_000);
      for (const each of later) assert.equal((await a.claim(each)).granted, false);
      await b.release(writer);
      for (const each of later) await claimUntilGranted(env, a, each, 5_000);
    },
    needsOrder,
  ),
  storeCase(
    2,
    'a heavy claim at the front is not overtaken by light ones',
    async (env, a, b) => {
      const name = freshName();
      const held = request(name, { mode: permits(2, 3) });
      const heavy = request(name, { mode: permits(3, 3), wait: true });
      await a.claim(held);
      assert.equal((await b.claim(heavy)).granted, false);
      assert.equal((await a.claim(request(name, { mode: permits(1, 3) }))).granted, false);
      await a.release(held);
      await claimUntilGranted(env, b, heavy, 5_000);
    },
    needsBoth(needsOrder, needsCounting),
  ),
];
