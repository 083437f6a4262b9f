import { expect, it } from 'vitest';
import { Core } from '../../src/core.ts';
import { acquire } from '../../src/hold/acquire.ts';
import { memoryStore } from '../../src/index.ts';
import { EXCLUSIVE } from '../../src/primitives/mutex.ts';
import { virtualClock } from '../../src/testing/index.ts';
import type { RenewalThread } from '../../src/thread/renewal-thread.ts';
import { SharedHeader } from '../../src/thread/shared-slots.ts';
import { ThreadRenewals } from '../../src/thread/thread-renewals.ts';
import { DONE } from '../../src/use.ts';
import { outcomeOf } from '../support/memory/world.ts';

it('a renewal of a slow thread does not shorten what a finished run has left behind', async () => {
  const clock = virtualClock();
  const store = memoryStore({ clock });
  const header = new SharedHeader();
  header.setTurn(clock);
  // A thread that does not answer until it is told to.
  let answer = (): void => {};
  const thread = {
    post: () => {},
    onMessage: () => {},
    call: () =>
      new Promise<void>((resolve) => {
        answer = resolve;
      }),
  } as unknown as RenewalThread;
  const options = { clock, commandMs: 1_000, ttlMs: 5_000 };
  const core = new Core(store, options, (own) => new ThreadRenewals(own, thread, header));
  const held = await acquire(core, { name: 'job', mode: EXCLUSIVE, settings: core.settings });
  const left = outcomeOf(held.leaveBehind(60_000, DONE));
  await clock.advance(1_500);
  expect(left.value).toBe(true);
  const expiresInMs = async (): Promise<number> => (await store.read('job'))[0]?.expiresInMs ?? 0;
  expect(await expiresInMs()).toBeGreaterThan(50_000);
  // The renewal that the thread had sent arrives only now.
  await store.renew(held.ref, { ttlMs: 5_000 });
  expect(await expiresInMs()).toBe(5_000);
  answer();
  await clock.settle();
  expect(await expiresInMs()).toBeGreaterThan(50_000);
});
