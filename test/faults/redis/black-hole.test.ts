import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Stage, startStage } from '../../redis/support/stage.ts';
import { eventually, later, renewals } from '../../support/patience.ts';
import { LIBRARIES } from '../../support/redis-clients.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await startStage();
});
afterEach(() => stage.proxy.pass());
afterAll(() => stage[Symbol.asyncDispose]());

describe.each(LIBRARIES)('row 21: a link that swallows everything, under %s', (library) => {
  it('the holder knows before another can hold, and the process works on', async () => {
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

    // A command that is never answered ends by its own limit, and says that nobody knows.
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

  it('one way only: what was sent may have arrived, and is taken back', async () => {
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

  it('a slow link only makes it slow', async () => {
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
