import assert from 'node:assert/strict';
import type { Store } from '../../store/store.ts';
import {
  claimUntilGranted,
  freshId,
  freshName,
  LONG_MS,
  request,
  type StoreCase,
  type StoreEnv,
  SUBSCRIBED_MS,
  storeCase,
} from '../store-case.ts';

/** What the store reports; an unknown id stands for every claim of the store. */
function reportsOf(store: Store): { includes(id: string): boolean } {
  const ids: (string | null)[] = [];
  store.onEvicted?.((id) => ids.push(id));
  return { includes: (id) => ids.some((each) => each === null || each === id) };
}

/** A hold of `a` that had to wait for one of `b`: where that needs a subscription, `a` has one. */
async function holdAfterWaiting(env: StoreEnv, a: Store, b: Store) {
  const name = freshName();
  const [first, held] = [request(name), request(name, { wait: true })];
  await b.claim(first);
  let isWoken = true;
  while (isWoken) {
    isWoken = false;
    const wake = (): void => {
      isWoken = true;
    };
    assert.equal((await a.claim(held, undefined, { wake })).granted, false);
    await env.pass(SUBSCRIBED_MS);
  }
  await b.release(first);
  await claimUntilGranted(env, a, held, 5_000);
  return held;
}

async function until(env: StoreEnv, what: string, isSo: () => Promise<boolean> | boolean): Promise<void> {
  for (let tries = 0; tries < 250; tries += 1) {
    if (await isSo()) return;
    await env.pass(20);
  }
  assert.fail(what);
}

/** Rule 7: what an evicted holder learns, and when. */
export const evictionCases: readonly StoreCase[] = [
  storeCase(
    7,
    'an evicted holder learns of it by a renewal, and at once where the store pushes evictions',
    async (env, a, b) => {
      const reports = reportsOf(a);
      const held = await holdAfterWaiting(env, a, b);
      assert.equal(await b.evict(held), true);
      if (env.pushesEvictions ?? a.onEvicted !== undefined)
        await until(env, 'the eviction was not reported', () => reports.includes(held.id));
      await until(env, 'the evicted claim can still be renewed', async () => {
        return !(await a.renew(held, { ttlMs: LONG_MS })).held;
      });
    },
  ),
  storeCase(7, 'a release is not reported as an eviction, nor is an eviction in vain', async (env, a, b) => {
    const reports = reportsOf(a);
    const held = await holdAfterWaiting(env, a, b);
    assert.equal(await b.evict({ name: held.name, id: freshId() }), false);
    assert.equal((await a.renew(held, { ttlMs: LONG_MS })).held, true);
    assert.equal(await a.release(held), true);
    await env.pass(100);
    assert.equal(reports.includes(held.id), false);
  }),
];
