import { afterEach, describe, expect, it } from 'vitest';
import { startStage } from '../../redis/support/stage.ts';
import { LIBRARIES } from '../../support/clients/redis-clients.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually, later, renewals } from '../../support/waiting/eventually.ts';

const stage = await useStage(startStage());
afterEach(() => stage.proxy.pass());

describe.each(LIBRARIES)('row 20: a lost reply under %s', (library) => {
  it('to a claim: the claim is granted, and not reported as held by another', async () => {
    const { proxy, admin } = stage;
    const locks = await stage.locks(library, stage.proxyUrl, { ttlMs: 60_000, waitMs: 40_000 });
    await (await locks.mutex('warm').acquire()).release();
    const name = `claim-${library}`;
    proxy.drop('toClient');
    const pending = later(locks.mutex(name).acquire());
    await eventually('the claim has arrived', async () => (await admin.get(`holdfast:${name}`)) !== null);
    proxy.pass();
    const startedMs = performance.now();
    const hold = await pending;
    // Long before the lease would have expired.
    expect(performance.now() - startedMs).toBeLessThan(20_000);
    expect(await admin.get(`holdfast:${name}`)).toBe(`${hold.fence} ${hold.id}`);
    expect(await hold.release()).toBe(true);
  });

  it('to a single try: a hold or a StoreError, never null, and nothing is left behind', async () => {
    const { proxy, admin } = stage;
    const locks = await stage.locks(library, stage.proxyUrl, { ttlMs: 60_000 });
    await (await locks.mutex('warm').acquire()).release();
    const name = `try-${library}`;
    proxy.drop('toClient');
    const pending = locks.mutex(name).tryAcquire();
    const outcome = pending.catch((error: { code: string }) => error.code);
    await eventually('the claim has arrived', async () => (await admin.get(`holdfast:${name}`)) !== null);
    proxy.pass();
    const result = await outcome;
    if (result !== 'STORE') {
      expect(result).toMatchObject({ name });
      await (await pending)?.release();
    }
    await eventually('the claim is gone', async () => (await admin.get(`holdfast:${name}`)) === null);
  });

  it('to a release: the release resolves to true', async () => {
    const { proxy, admin } = stage;
    const locks = await stage.locks(library, stage.proxyUrl, { ttlMs: 60_000 });
    const name = `release-${library}`;
    const hold = await locks.mutex(name).acquire();
    proxy.drop('toClient');
    const pending = later(hold.release());
    await eventually('the release has arrived', async () => (await admin.get(`holdfast:${name}`)) === null);
    proxy.pass();
    expect(await pending).toBe(true);
  });

  it('to a renewal: the hold continues', async () => {
    const { proxy } = stage;
    const locks = await stage.locks(library, stage.proxyUrl, { ttlMs: 10_000, renewEveryMs: 500 });
    const hold = await locks.mutex(`renew-${library}`).acquire();
    const before = proxy.bytesToServer;
    proxy.drop('toClient');
    await eventually('a renewal was sent', () => proxy.bytesToServer > before);
    proxy.pass();
    await renewals(locks, 2);
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
  });
});
