import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Stage, startStage } from '../../redis/support/stage.ts';
import { LIBRARIES } from '../../support/clients/redis-clients.ts';
import { eventually, later, renewals } from '../../support/waiting/eventually.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await startStage();
});
afterEach(() => stage.proxy.pass());
afterAll(() => stage[Symbol.asyncDispose]());

describe.each(LIBRARIES)('row 21: a connection that swallows everything, under %s', (library) => {
  it('the holder is told before another can hold, and the process goes on', async () => {
    const { proxy } = stage;
    const name = `hole-${library}`;
    const cutOff = await stage.locks(library, stage.proxyUrl, { ttlMs: 1_500 });
    const others = await stage.locks(library, stage.server.url);
    const hold = await cutOff.mutex(name).acquire();
    let lostAtMs = Number.POSITIVE_INFINITY;
    hold.signal.addEventListener('abort', () => {
      lostAtMs = performance.now();
    });
    proxy.drop('both');
    const next = await others.mutex(name).acquire();
    expect(lostAtMs).toBeLessThanOrEqual(performance.now());
    expect(() => hold.assertHeld()).toThrow(expect.objectContaining({ code: 'HOLD_LOST', how: 'expired' }));
    expect(next.fence).toBeGreaterThan(hold.fence);

    // A command without a reply ends at its time limit, with an unknown outcome.
    const startedMs = performance.now();
    await expect(cutOff.mutex(`other-${library}`).acquire({ waitMs: 700 })).rejects.toMatchObject({
      code: 'STORE',
    });
    expect(performance.now() - startedMs).toBeLessThan(10_000);
    proxy.pass();
    expect(await next.release()).toBe(true);
    const again = await cutOff.mutex(name).acquire();
    expect(again.fence).toBeGreaterThan(next.fence);
    await again.release();
  });

  it('only replies are swallowed: a claim that may have arrived is removed', async () => {
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
