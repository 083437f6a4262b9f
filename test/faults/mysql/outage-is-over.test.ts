import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../../src/clock.ts';
import { LeaseStage, request } from '../../mysql/support/lease-stage.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';

let stage: LeaseStage;
beforeAll(async () => {
  stage = await LeaseStage.start();
});
afterAll(() => stage[Symbol.asyncDispose]());

/** A store that polls sends something at least every 750 ms. */
async function fallsSilent(): Promise<void> {
  const isSilent = async (): Promise<boolean> => {
    const before = stage.proxy.bytesToServer;
    await sleep(1_500);
    return stage.proxy.bytesToServer === before;
  };
  await eventually('nothing is sent any more', isSilent, 15_000);
}

it('claims that were refused in an outage are not polled for after it', async () => {
  await using locks = stage.locks({ url: stage.proxyUrl });
  const others = stage.locks();
  await locks.withLock('before', () => {});
  stage.proxy.refuse();
  stage.proxy.cut();
  const refused = ['a', 'b', 'c'].map((name) => later(locks.mutex(name).acquire({ waitMs: 500 })));
  for (const each of refused) await expect(each).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  stage.proxy.pass();
  // A wait starts the polls.
  const hold = await others.mutex('after').acquire();
  const waiting = later(locks.mutex('after').acquire());
  await eventually('it waits', async () => (await others.inspect('after')).waiters.length === 1);
  const sent = stage.proxy.bytesToServer;
  await eventually('it polls', () => stage.proxy.bytesToServer > sent);
  await hold.release();
  await (await waiting).release();
  await fallsSilent();
}, 40_000);

it('a claim of unknown outcome that nobody asks for again is not polled for ever', async () => {
  let aheadMs = 0;
  const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs };
  const store = stage.store({ url: stage.proxyUrl, clock });
  await store.read('before');
  stage.proxy.drop('toServer');
  const lost = store.claim(request('lost', { wait: true }), AbortSignal.timeout(300));
  await expect(lost).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
  stage.proxy.cut();
  stage.proxy.pass();
  // Another wait starts the polls.
  const [held, waiting] = [request('waited for'), request('waited for', { wait: true })];
  await stage.store().claim(held);
  await store.claim(waiting, undefined, { wake: () => {} });
  const sent = stage.proxy.bytesToServer;
  await eventually('it polls', () => stage.proxy.bytesToServer > sent);
  await store.release(waiting);
  aheadMs = 200_000;
  await fallsSilent();
  await store.close();
}, 40_000);
