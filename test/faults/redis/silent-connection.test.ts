import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { redisStore } from '../../../src/stores/redis/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { claimedNames } from '../../redis/support/claimed-names.ts';
import { startStage } from '../../redis/support/stage.ts';
import { LIBRARIES, openClient } from '../../support/clients/redis-clients.ts';
import { expectLossInTime } from '../../support/faults/silent-link.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually, later, renewals } from '../../support/waiting/eventually.ts';

const stage = await useStage(startStage());
afterEach(() => stage.proxy.pass());

describe.each(LIBRARIES)('row 21: a connection that drops every packet, under %s', (library) => {
  it('the holder is notified before another can hold, and the process keeps running', async () => {
    const { proxy } = stage;
    const cutOff = await stage.locks(library, stage.proxyUrl, { ttlMs: 1_500 });
    const others = await stage.locks(library, stage.server.url);
    await expectLossInTime({ proxy, cutOff, others, label: library });
  });

  it('only replies are dropped: a claim that may have arrived is removed', async () => {
    const { proxy, admin } = stage;
    const name = `one-way-${library}`;
    const locks = await stage.locks(library, stage.proxyUrl, { ttlMs: 30_000 });
    await (await locks.mutex('warm').acquire()).release();
    proxy.drop('toClient');
    const pending = later(locks.mutex(name).acquire({ waitMs: 1_500 }));
    await eventually('it has arrived', async () => (await admin.exists(`holdfast:${name}`)) === 1);
    await expect(pending).rejects.toMatchObject({ code: 'STORE' });
    proxy.pass();
    await eventually('it is gone', async () => (await admin.exists(`holdfast:${name}`)) === 0);
  });

  it('a watch is registered within a time limit', async () => {
    const { client, close } = await openClient(library, stage.proxyUrl);
    const store = redisStore(client);
    const warm = await store.watch({ name: 'warm' }, () => {});
    stage.proxy.drop('both');
    const watch = await store.watch({ name: `watched-${library}` }, () => {});
    await Promise.all([warm[Symbol.asyncDispose](), watch[Symbol.asyncDispose]()]);
    stage.proxy.pass();
    await store.close();
    close();
  });

  it('the client is not given more and more commands that have no reply', async () => {
    const { proxy, admin } = stage;
    const { client, close } = await openClient(library, stage.proxyUrl);
    const store = redisStore(client);
    const watched = (round: string): Promise<AsyncDisposable[]> =>
      Promise.all(Array.from({ length: 100 }, (_, n) => store.watch({ name: `${round}-${n}` }, () => {})));
    const [first, second] = [await watched('first'), await watched('second')];
    const end = (watches: readonly AsyncDisposable[]): Promise<unknown> =>
      Promise.all(watches.map((watch) => watch[Symbol.asyncDispose]()));
    const removals = async (): Promise<number> =>
      Number(/cmdstat_zrem:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1] ?? 0);
    const before = await removals();
    proxy.drop('toClient');
    await end(first);
    await eventually('they have arrived', async () => (await removals()) === before + 100);
    // Longer than the time limit of these commands.
    await sleep(5_000);
    await end(second);
    await sleep(500);
    expect(await removals()).toBe(before + 100);
    await store.close();
    close();
  });

  it('a slow connection only makes calls slow', async () => {
    const { proxy } = stage;
    const locks = await stage.locks(library, stage.proxyUrl, { ttlMs: 8_000, renewEveryMs: 500 });
    await (await locks.mutex('warm').acquire()).release();
    proxy.delay(150);
    const hold = await locks.mutex(`slow-${library}`).acquire();
    expect(hold.remainingMs).toBeLessThan(7_900);
    await renewals(locks, 2);
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
  });
});

it('row 21: a claim that the client sends again after its caller has given up is removed', async () => {
  const { proxy, admin } = stage;
  const clock = virtualClock();
  const { client, close } = await openClient('ioredis', stage.proxyUrl);
  const store = redisStore(client);
  const locks = createLocks(store, { clock, ttlMs: 600_000 });
  await (await locks.mutex('warm').acquire()).release();
  proxy.drop('both');
  // So many releases have no reply that no more are sent: none follows the claim.
  const release = (n: number): Promise<unknown> =>
    store.release({ name: `unsent-${n}`, id: 'x' }, AbortSignal.timeout(10)).catch(() => {});
  for (let n = 0; n < 80; n += 8) {
    const calls = Array.from({ length: 8 }, (_, k) => sleep(k).then(() => release(n + k)));
    await Promise.all(calls);
  }
  const given = later(locks.mutex('resent').acquire({ waitMs: 1_000 }));
  // By then the store listens to the signal of the claim, which was written to the socket at once.
  // Its caller gives up, and so does the clean-up.
  await sleep(1_000);
  await clock.advance(10_000);
  await expect(given).rejects.toMatchObject({ code: 'STORE' });
  await clock.advance(700_000);
  const claimed = await claimedNames(admin);
  proxy.pass();
  await eventually('the client sends it again', () => claimed.includes('holdfast:resent'));
  await eventually('it is gone', async () => (await admin.exists('holdfast:resent')) === 0);
  await locks.close({ drainMs: 0 });
  close();
});
