import assert from 'node:assert/strict';
import type { StoreError } from '../../errors.ts';
import {
  claimUntilGranted,
  freshName,
  needsLease,
  request,
  SHARED,
  type StoreCase,
  storeCase,
} from '../store-case.ts';

/** Rule 8: fences rise with the grants. */
export const fenceCases: readonly StoreCase[] = [
  storeCase(8, 'each later hold of a lock has a greater fence', async (_env, a, b) => {
    const name = freshName();
    let last = 0n;
    for (let round = 0; round < 10; round += 1) {
      const store = round % 2 ? a : b;
      const wanted = request(name);
      const outcome = await store.claim(wanted);
      assert.ok(outcome.granted && outcome.fence > last, 'the fence did not rise');
      last = outcome.fence;
      await store.release(wanted);
    }
  }),
  storeCase(8, 'a hold by handoff has a greater fence', async (env, a, b) => {
    const name = freshName();
    const held = request(name);
    const first = await a.claim(held);
    const waiters = [request(name, { wait: true }), request(name, { wait: true })] as const;
    for (const waiter of waiters) await b.claim(waiter);
    await a.release(held);
    const second = await claimUntilGranted(env, b, waiters[0], 5_000);
    await b.release(waiters[0]);
    const third = await claimUntilGranted(env, b, waiters[1], 5_000);
    assert.ok(first.granted && second.fence > first.fence && third.fence > second.fence);
  }),
  storeCase(
    8,
    'a hold after one that expired has a greater fence',
    async (env, a, b) => {
      const name = freshName();
      const first = await a.claim(request(name, { ttlMs: env.ttlMs ?? 300 }));
      assert.ok(first.granted);
      const second = await claimUntilGranted(env, b, request(name), first.validForMs + 2_000);
      assert.ok(second.fence > first.fence);
    },
    needsLease,
  ),
  storeCase(
    8,
    'a fence is above every fence that the caller has seen, or the store refuses',
    async (_env, a) => {
      const fenceAbove = BigInt(2) ** 52n;
      try {
        const outcome = await a.claim(request(freshName(), { fenceAbove }));
        assert.ok(outcome.granted && outcome.fence > fenceAbove);
      } catch (error) {
        assert.equal((error as StoreError).code, 'STORE');
      }
    },
  ),
  storeCase(8, 'renewing keeps the fence', async (_env, a) => {
    const wanted = request(freshName());
    const first = await a.claim(wanted);
    await a.renew(wanted, { ttlMs: 60_000 });
    const again = await a.claim(wanted);
    assert.ok(first.granted && again.granted && first.fence === again.fence);
  }),
  storeCase(8, 'readers that hold at once have fences of their own', async (_env, a, b) => {
    const name = freshName();
    const one = await a.claim(request(name, { mode: SHARED }));
    const two = await b.claim(request(name, { mode: SHARED }));
    assert.ok(one.granted && two.granted && two.fence > one.fence);
  }),
];
