import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually, type Stage, startStage } from '../../redis/support/stage.ts';
import { makeClockShim } from '../../support/servers/clock-shim.ts';

const shim = makeClockShim();
let stage: Stage;
beforeAll(async () => {
  stage = await startStage({ env: shim.env });
});
afterAll(async () => {
  await stage[Symbol.asyncDispose]();
  shim.remove();
});

const serverSeconds = async (): Promise<number> => Number((await stage.admin.time())[0]);

it('row 35: the server clock jumps forward: others may hold, the first is told within one renewal, fences rise', async () => {
  shim.set(0);
  const locks = await stage.locks('ioredis', stage.server.url, { ttlMs: 3_000 });
  const others = await stage.locks('node-redis', stage.server.url, { ttlMs: 3_000 });
  const hold = await locks.mutex('forward').acquire();
  const shared = await locks.readWriteLock('forward-rw').read.acquire();
  const before = await serverSeconds();
  shim.set(120);
  expect(await serverSeconds()).toBeGreaterThanOrEqual(before + 120);
  const next = await others.mutex('forward').acquire();
  const writer = await others.readWriteLock('forward-rw').write.acquire();
  expect(next.fence).toBeGreaterThan(hold.fence);
  expect(writer.fence).toBeGreaterThan(shared.fence);
  await eventually('the first is told', () => hold.signal.aborted && shared.signal.aborted, 3_000);
  next.assertHeld();
  await next.release();
  await writer.release();
});

it('row 35: the server clock jumps back: holds go on, fences still rise, and a dead holder can be evicted', async () => {
  shim.set(600);
  const locks = await stage.locks('ioredis', stage.server.url, { ttlMs: 1_500 });
  const others = await stage.locks('node-redis', stage.server.url);
  const hold = await locks.mutex('back').acquire();
  const dead = await locks.mutex('dead').acquire({ renew: false });
  shim.set(0);
  await sleep(1_700);
  hold.assertHeld();
  expect(await hold.release()).toBe(true);
  const next = await others.mutex('back').acquire();
  expect(next.fence).toBeGreaterThan(hold.fence);
  await next.release();

  // Its lease ran out by every clock but the server's, which now says ten minutes more.
  expect(() => dead.assertHeld()).toThrow();
  const view = await others.inspect('dead');
  expect(view.holders[0]?.expiresInMs).toBeGreaterThan(500_000);
  expect(await others.evict('dead', { id: dead.id })).toBe(true);
  const after = await others.mutex('dead').acquire();
  expect(after.fence).toBeGreaterThan(dead.fence);
  // The age is told by the time of the grant, also while fences run ahead of the clock.
  const [holder] = (await others.inspect('dead')).holders;
  expect(holder?.heldForMs).toBeLessThan(60_000);
  await after.release();
});
