import assert from 'node:assert/strict';
import {
  claimUntilGranted,
  freshName,
  needsLease,
  needsOrder,
  request,
  type StoreCase,
  type StoreEnv,
  storeCase,
} from '../store-case.ts';

/** Waits in small steps until it is so, or fails. */
async function eventually(env: StoreEnv, what: string, isSo: () => boolean, budgetMs = 5_000): Promise<void> {
  for (let spentMs = 0; spentMs < budgetMs; spentMs += 10) {
    if (isSo()) return;
    await env.pass(10);
  }
  assert.fail(what);
}

/** Rule 5: wake-ups are hints, and one release wakes one waiter. */
export const watchCases: readonly StoreCase[] = [
  storeCase(5, 'a release wakes the waiter that listens', async (env, a, b) => {
    const name = freshName();
    const held = request(name);
    const waiter = request(name, { wait: true });
    await a.claim(held);
    await b.claim(waiter);
    let woken = 0;
    const watch = await b.watch(waiter, () => {
      woken += 1;
    });
    await b.claim(waiter);
    await a.release(held);
    await eventually(env, 'nobody was woken', () => woken > 0);
    await claimUntilGranted(env, b, waiter, 5_000);
    await watch[Symbol.asyncDispose]();
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
      const watches = [];
      for (const [n, waiter] of waiters.entries()) {
        await b.claim(waiter);
        watches.push(
          await b.watch(waiter, () => {
            woken[n] = (woken[n] ?? 0) + 1;
          }),
        );
        await b.claim(waiter);
      }
      const before = [...woken];
      await a.release(held);
      await eventually(env, 'the next waiter was not woken', () => (woken[0] ?? 0) > (before[0] ?? 0));
      await env.pass(100);
      // The one behind the next may be told that it is first in line now; nobody further back may hear of it.
      assert.deepEqual(woken.slice(2), before.slice(2));
      await Promise.all(watches.map((watch) => watch[Symbol.asyncDispose]()));
    },
    needsOrder,
  ),
  storeCase(5, 'an eviction wakes the next waiter', async (env, a, b) => {
    const name = freshName();
    const held = request(name);
    const waiter = request(name, { wait: true });
    await a.claim(held);
    await b.claim(waiter);
    let woken = 0;
    const watch = await b.watch(waiter, () => {
      woken += 1;
    });
    await b.claim(waiter);
    await a.evict(held);
    await eventually(env, 'nobody was woken', () => woken > 0);
    await claimUntilGranted(env, b, waiter, 5_000);
    await watch[Symbol.asyncDispose]();
  }),
  storeCase(5, 'who watches a lock hears of a grant and of a release', async (env, a, b) => {
    const name = freshName();
    let heard = 0;
    const watch = await b.watch({ name }, () => {
      heard += 1;
    });
    const held = request(name);
    await a.claim(held);
    await eventually(env, 'the grant was not heard of', () => heard > 0, 15_000);
    const before = heard;
    await a.release(held);
    await eventually(env, 'the release was not heard of', () => heard > before, 15_000);
    await watch[Symbol.asyncDispose]();
  }),
  storeCase(5, 'a watch that was given up stays silent', async (env, a, b) => {
    const name = freshName();
    const held = request(name);
    const waiter = request(name, { wait: true });
    await a.claim(held);
    await b.claim(waiter);
    let woken = 0;
    const watch = await b.watch(waiter, () => {
      woken += 1;
    });
    await watch[Symbol.asyncDispose]();
    woken = 0;
    await a.release(held);
    await env.pass(100);
    assert.equal(woken, 0);
  }),
  storeCase(
    5,
    'nobody has to listen: who asks again when told to gets in',
    async (env, a, b) => {
      const name = freshName();
      const held = await a.claim(request(name, { ttlMs: env.ttlMs ?? 300 }));
      assert.ok(held.granted);
      const waiter = request(name, { wait: true });
      for (let spentMs = 0; ; ) {
        const outcome = await b.claim(waiter);
        if (outcome.granted) return;
        assert.ok(spentMs < held.validForMs + 1_500, 'the store told the waiter to sleep for too long');
        const stepMs = Math.max(outcome.retryAfterMs ?? 100, 1);
        await env.pass(stepMs);
        spentMs += stepMs;
      }
    },
    needsLease,
  ),
];
