import { execFileSync } from 'node:child_process';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ClaimRequest } from '../../../src/store/store.ts';
import { LeaseStage, request } from '../../postgres/support/lease-stage.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';

let stage: LeaseStage;
beforeEach(async () => {
  stage = await LeaseStage.start();
});
afterEach(() => stage[Symbol.asyncDispose]());

const crash = async (): Promise<void> => {
  stage.server.kill('SIGQUIT');
  await stage.server.exited();
};

describe.each(['pg.Pool', 'postgres.js'] as const)('row 44: an immediate restart, under %s', (library) => {
  it('keeps holds, waiters and the order of fences', async () => {
    const locks = stage.locks({ library, ttlMs: 20_000 });
    const others = stage.locks({ library, waitMs: 30_000 });
    const hold = await locks.mutex('kept').acquire();
    const reader = await locks.readWriteLock('kept-rw').read.acquire();
    const pending = later(others.mutex('kept').acquire());
    await eventually('it waits', async () => (await locks.inspect('kept')).waiters.length === 1);
    await stage.server.restartImmediately();
    // What is renewed now is what the server has kept.
    await hold.extend();
    await reader.extend();
    hold.assertHeld();
    expect(await stage.store().claim(request('kept'))).toMatchObject({ granted: false });
    expect(await hold.release()).toBe(true);
    expect(await reader.release()).toBe(true);
    const next = await pending;
    expect(next.fence).toBeGreaterThan(hold.fence);
    await next.release();
  });
});

it('row 44: a grant is on disk before it is answered, also where commits are not waited for', async () => {
  await stage.query(`ALTER DATABASE ${new URL(stage.url).pathname.slice(1)} SET synchronous_commit = off`);
  const store = stage.store();
  for (let round = 0; round < 3; round += 1) {
    const held = Array.from({ length: 5 }, (_, n) => request(`durable-${round}-${n}`));
    // The last one in a statement of its own.
    await Promise.all(held.slice(1).map((each) => store.claim(each)));
    await store.claim(held[0] as ClaimRequest);
    await stage.server.restartImmediately();
    const renewed = [];
    for (const each of held) {
      // The first call after a restart may fail with the old connection.
      const again = await store
        .renew(each, { ttlMs: 60_000 })
        .catch(() => store.renew(each, { ttlMs: 60_000 }));
      renewed.push(again.held);
    }
    expect(renewed).toEqual([true, true, true, true, true]);
  }
});

it('row 44: a holder is notified in time when the server stays away', async () => {
  const locks = stage.locks({ ttlMs: 1_200 });
  const hold = await locks.mutex('away').acquire();
  const lost = new Promise<number>((resolve) =>
    hold.signal.addEventListener('abort', () => resolve(performance.now())),
  );
  const startedMs = performance.now();
  await crash();
  // 1.2 seconds, and room for a busy machine. A renewal without an answer ends after five.
  expect((await lost) - startedMs).toBeLessThan(4_500);
  await expect(locks.mutex('away').acquire({ waitMs: 300 })).rejects.toMatchObject({ code: 'STORE' });
  await stage.server.start();
  const again = await locks.mutex('away').acquire();
  expect(again.fence).toBeGreaterThan(hold.fence);
  await again.release();
});

it('row 44: a promoted standby without the last grants: holders are notified and fences rise', async () => {
  const data = `${stage.server.dir}/data`;
  const locks = stage.locks({ ttlMs: 3_000 });
  await (await locks.mutex('stale').acquire()).release();
  // The standby has what was there now.
  await stage.query('CHECKPOINT');
  await crash();
  execFileSync('cp', ['-rp', data, `${data}-standby`]);
  await stage.server.start();
  const hold = await locks.mutex('stale').acquire();
  const fresh = await locks.mutex('stale-new').acquire();
  await crash();
  renameSync(data, `${data}-lost`);
  renameSync(`${data}-standby`, data);
  await stage.server.start();
  const others = stage.locks();
  const [next, second] = await Promise.all([
    others.mutex('stale').acquire(),
    others.mutex('stale-new').acquire(),
  ]);
  expect(next.fence).toBeGreaterThan(hold.fence);
  expect(second.fence).toBeGreaterThan(fresh.fence);
  await eventually('the first is notified', () => hold.signal.aborted && fresh.signal.aborted, 12_000);
  rmSync(`${data}-lost`, { recursive: true });
});

it('row 44: a standby is refused, on every connect, and used once it is promoted', async () => {
  const store = stage.store();
  const held = request('primary');
  expect(await store.claim(held)).toMatchObject({ granted: true });
  await crash();
  writeFileSync(`${stage.server.dir}/data/standby.signal`, '');
  await stage.server.start();
  for (let n = 0; n < 2; n += 1) {
    await expect(store.renew(held, { ttlMs: 60_000 })).rejects.toMatchObject({
      code: 'STORE',
      applied: 'no',
      message: expect.stringContaining('a standby and can only be read'),
    });
  }
  // What it shows may be long over.
  await expect(store.read(held.name)).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  await stage.query('SELECT pg_promote()');
  await eventually('it is promoted', async () => {
    const [row] = await stage.query('SELECT pg_is_in_recovery() AS standby');
    return row?.standby === false;
  });
  await eventually('it is used', async () => {
    const again = await store.renew(held, { ttlMs: 60_000 }).catch(() => null);
    return again?.held === true;
  });
});
