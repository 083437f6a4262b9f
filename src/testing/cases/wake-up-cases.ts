import assert from 'node:assert/strict';
import type { ClaimRequest, PushedGrant, Store, Waiter } from '../../store/store.ts';
import {
  claimUntilGranted,
  freshName,
  needsLease,
  needsOrder,
  request,
  type StoreCase,
  type StoreEnv,
  SUBSCRIBED_MS,
  storeCase,
} from '../store-case.ts';

/** Waits in small steps until the condition holds, or fails. */
async function eventually(env: StoreEnv, what: string, isSo: () => boolean, budgetMs = 5_000): Promise<void> {
  for (let spentMs = 0; spentMs < budgetMs; spentMs += 10) {
    if (isSo()) return;
    await env.pass(10);
  }
  assert.fail(what);
}

/** A waiter that records its wake-ups. */
function listener(): { heard: { woken: number; grant: PushedGrant | undefined }; waiter: Waiter } {
  const heard: { woken: number; grant: PushedGrant | undefined } = { woken: 0, grant: undefined };
  const wake = (grant?: PushedGrant): void => {
    heard.woken += 1;
    heard.grant = grant;
  };
  return { heard, waiter: { wake } };
}

/**
 * As the core does: claims again while it is woken, until no wake-up follows. The subscription may
 * become active only then.
 */
async function settleWaking(
  env: StoreEnv,
  store: Store,
  wanted: ClaimRequest,
  ear: Waiter,
  quietMs = SUBSCRIBED_MS,
): Promise<void> {
  let isWoken = false;
  const both = {
    wake: (grant?: PushedGrant): void => {
      isWoken = true;
      ear.wake(grant);
    },
  };
  do {
    isWoken = false;
    const outcome = await store.claim(wanted, undefined, both);
    assert.equal(outcome.granted, false);
    await env.pass(quietMs);
  } while (isWoken);
}

/** A hold of `a`, and a claim of `b` that waits behind it and whose subscription is active. */
async function waitBehindHolder(env: StoreEnv, a: Store, b: Store) {
  const name = freshName();
  const held = request(name);
  const waiting = request(name, { wait: true });
  await a.claim(held);
  const { heard, waiter } = listener();
  await b.claim(waiting, undefined, waiter);
  await settleWaking(env, b, waiting, waiter);
  return { held, waiting, heard };
}

/** Rule 5: wake-ups are hints, and one release wakes one waiter. */
export const wakeUpCases: readonly StoreCase[] = [
  storeCase(5, 'a release wakes the waiter', async (env, a, b) => {
    const { held, waiting, heard } = await waitBehindHolder(env, a, b);
    const before = heard.woken;
    await a.release(held);
    await eventually(env, 'no waiter was woken', () => heard.woken > before);
    await claimUntilGranted(env, b, waiting, 5_000);
  }),
  storeCase(5, 'a release drops the waiter, also when it is abandoned at once', async (env, a, b) => {
    const { held, waiting, heard } = await waitBehindHolder(env, a, b);
    await b.release(waiting, AbortSignal.abort()).catch(() => {});
    const before = heard.woken;
    await a.release(held);
    await env.pass(SUBSCRIBED_MS);
    assert.equal(heard.woken, before);
    await b.release(waiting);
  }),
  storeCase(
    5,
    'a release wakes one waiter, not those behind it',
    async (env, a, b) => {
      const name = freshName();
      const held = request(name);
      await a.claim(held);
      const waiters = Array.from({ length: 6 }, () => request(name, { wait: true }));
      const woken = waiters.map(() => 0);
      for (const [n, waiter] of waiters.entries()) {
        const ear = {
          wake: () => {
            woken[n] = (woken[n] ?? 0) + 1;
          },
        };
        await b.claim(waiter, undefined, ear);
        await settleWaking(env, b, waiter, ear, n === 0 ? SUBSCRIBED_MS : 30);
      }
      const before = [...woken];
      await a.release(held);
      await eventually(env, 'the next waiter was not woken', () => (woken[0] ?? 0) > (before[0] ?? 0));
      await env.pass(100);
      // The waiter behind the next one is first in the queue now and may be woken, but none behind it.
      assert.deepEqual(woken.slice(2), before.slice(2));
    },
    needsOrder,
  ),
  storeCase(
    5,
    'a renewal that changes the note wakes the waiters',
    async (env, a, b) => {
      const { held, waiting, heard } = await waitBehindHolder(env, a, b);
      const before = heard.woken;
      const renewed = await a.renew(held, { ttlMs: held.ttlMs, note: 'changed' });
      assert.equal(renewed.held, true);
      await eventually(env, 'no waiter was woken', () => heard.woken > before);
      assert.equal(heard.grant, undefined);
      assert.equal((await b.claim(waiting)).granted, false);
    },
    needsLease,
  ),
  storeCase(5, 'an eviction wakes the next waiter', async (env, a, b) => {
    const { held, waiting, heard } = await waitBehindHolder(env, a, b);
    const before = heard.woken;
    await a.evict(held);
    await eventually(env, 'no waiter was woken', () => heard.woken > before);
    await claimUntilGranted(env, b, waiting, 5_000);
  }),
  storeCase(5, 'an observer is called after a grant and after a release', async (env, a, b) => {
    const name = freshName();
    let heard = 0;
    const watch = await b.watch({ name }, () => {
      heard += 1;
    });
    const held = request(name);
    await a.claim(held);
    await eventually(env, 'the grant was not reported', () => heard > 0, 15_000);
    const before = heard;
    await a.release(held);
    await eventually(env, 'the release was not reported', () => heard > before, 15_000);
    await watch[Symbol.asyncDispose]();
  }),
  storeCase(5, 'a waiter whose claim was released stays silent', async (env, a, b) => {
    const name = freshName();
    const held = request(name);
    const waiter = request(name, { wait: true });
    await a.claim(held);
    const { heard, waiter: ear } = listener();
    await b.claim(waiter, undefined, ear);
    await b.release(waiter);
    const before = heard.woken;
    await a.release(held);
    await env.pass(100);
    assert.equal(heard.woken, before);
  }),
  storeCase(5, 'a pushed grant has the fence that asking gives', async (env, a, b) => {
    const { held, waiting, heard } = await waitBehindHolder(env, a, b);
    await a.release(held);
    const { fence } = await claimUntilGranted(env, b, waiting, 5_000);
    if (heard.grant !== undefined) {
      assert.equal(heard.grant.fence, fence);
      assert.ok(heard.grant.validForMs > 0 && heard.grant.validForMs <= waiting.ttlMs);
    }
  }),
  storeCase(
    5,
    'without wake-ups, a claim that is sent again after retryAfterMs is granted',
    async (env, a, b) => {
      const name = freshName();
      const held = await a.claim(request(name, { ttlMs: env.ttlMs ?? 300 }));
      assert.ok(held.granted);
      const waiter = request(name, { wait: true });
      for (let spentMs = 0; ; ) {
        const outcome = await b.claim(waiter);
        if (outcome.granted) return;
        assert.ok(spentMs < held.validForMs + 1_500, 'the store let the waiter sleep for too long');
        const stepMs = Math.max(outcome.retryAfterMs ?? 100, 1);
        await env.pass(stepMs);
        spentMs += stepMs;
      }
    },
    needsLease,
  ),
];
