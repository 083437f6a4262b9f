import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { bindFence } from '../../../src/stores/postgres/index.ts';
import { AdvisoryStage } from '../../postgres/support/advisory-stage.ts';
import { LeaseStage, request } from '../../postgres/support/lease-stage.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { serverClock } from '../../support/servers/server-clock.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';
import { renewed } from '../../support/waiting/renewed.ts';

const HOUR = 3_600;
const clock = serverClock(async () => {
  const [row] = await stage.query('SELECT extract(epoch FROM clock_timestamp())::float8 AS at');
  return Number(row?.at);
});
const stage = await useStage(LeaseStage.start({ env: clock.env }));

describe('row 47: the server’s clock is set forward', () => {
  it('the first holder is notified within one renewal, fences rise, a late write is refused', async () => {
    await clock.set(0);
    const locks = stage.locks({ ttlMs: 8_000 });
    const others = stage.locks({ ttlMs: 8_000 });
    const hold = await locks.mutex('forward').acquire();
    const reader = await locks.readWriteLock('forward-rw').read.acquire();
    const waiting = later(others.mutex('forward').acquire());
    await stage.listening('forward', 1);
    await stage.query("CREATE TABLE ledger (what text); SELECT holdfast.require_fence('ledger')");

    await clock.set(HOUR);
    const [next, writer] = await Promise.all([
      waiting,
      others.readWriteLock('forward-rw').write.acquire({ waitMs: 20_000 }),
    ]);
    expect(next.fence).toBeGreaterThan(hold.fence);
    expect(writer.fence).toBeGreaterThan(reader.fence);
    const client = new pg.Client(stage.url);
    await client.connect();
    await client.query('BEGIN');
    await bindFence(client, next);
    await client.query("INSERT INTO ledger VALUES ('in time'); COMMIT; BEGIN");
    await expect(bindFence(client, hold)).rejects.toMatchObject({ code: 'STALE_FENCE' });
    await client.end();
    await eventually('the first are notified', () => hold.signal.aborted && reader.signal.aborted, 12_000);
    // Holds that were granted by the new clock are not affected by the jump.
    await Promise.all([renewed(next), renewed(writer)]);
    expect(await next.release()).toBe(true);
    expect(await writer.release()).toBe(true);
  });
});

describe('row 47: the server’s clock is set back', () => {
  it('holds stay exclusive, and fences still rise, also for rows that were pruned', async () => {
    await clock.set(HOUR);
    const locks = stage.locks({ ttlMs: 8_000 });
    const others = stage.locks({ ttlMs: 8_000 });
    const hold = await locks.mutex('back').acquire();
    const pruned = await locks.mutex('back-pruned').acquire();
    await pruned.release();
    await stage.query('SELECT holdfast.prune(0)');

    await clock.set(0);
    let isOver = false;
    const twice = renewed(hold)
      .then(() => renewed(hold))
      .finally(() => {
        isOver = true;
      });
    twice.catch(() => {});
    for (; !isOver; await sleep(20)) expect(await others.mutex('back').tryAcquire()).toBeNull();
    await twice;
    expect(await hold.release()).toBe(true);
    const next = await others.mutex('back').acquire();
    expect(next.fence).toBeGreaterThan(hold.fence);
    const again = await others.mutex('back-pruned').acquire();
    expect(again.fence).toBeGreaterThan(pruned.fence);
    const [holder] = (await locks.inspect('back')).holders;
    expect(holder?.heldForMs).toBeLessThan(60_000);
    await Promise.all([next.release(), again.release()]);
  });

  it('the hold of a dead process ends within its TTL, counted from the next claim', async () => {
    await clock.set(HOUR);
    const locks = stage.locks({ ttlMs: 1_000, renew: false });
    const others = stage.locks({ ttlMs: 1_000, waitMs: 20_000 });
    const dead = [
      await locks.mutex('dead').acquire(),
      await locks.readWriteLock('dead-rw').read.acquire(),
      await locks.semaphore('dead-permits', { permits: 2 }).acquire({ permits: 2 }),
    ];
    const waiting = later(others.mutex('dead').acquire());
    await stage.listening('dead', 1);
    await clock.set(0);
    const view = await others.inspect('dead');
    expect(view.holders[0]?.expiresInMs).toBeLessThanOrEqual(1_000);
    const next = await Promise.all([
      waiting,
      others.readWriteLock('dead-rw').write.acquire(),
      others.semaphore('dead-permits', { permits: 2 }).acquire(),
    ]);
    for (const [n, hold] of next.entries()) {
      expect(hold.fence).toBeGreaterThan(dead[n]?.fence ?? 0n);
      await hold.release();
    }
  });

  it('a waiter that was called before, and never claims again, is still passed over', async () => {
    await clock.set(HOUR);
    const store = stage.store();
    const first = request('called');
    expect(await store.claim(first)).toMatchObject({ granted: true });
    // As behind a pooler, where the server cannot tell which waiters are dead.
    expect(await store.claim(request('called', { wait: true }))).toMatchObject({ granted: false });
    await store.release(first);
    await clock.set(0);
    expect(await store.claim(request('called'))).toMatchObject({ granted: true });
  });

  it('a claim that read the clock before a renewal does not cut the lease', async () => {
    await clock.set(0);
    const store = stage.store();
    const [mine, read] = [
      request('stopped'),
      request('stopped-rw', { mode: { kind: 'shared' }, ttlMs: 60_000 }),
    ];
    await store.claim(mine);
    await store.claim(read);
    for (const { name } of [mine, read]) {
      await stage.query(
        `SELECT holdfast.claim_in_queue(
            l, clock_timestamp() - interval '50 seconds', 'late', 1000, false, 0, 0, '', 0, 100, NULL)
          FROM holdfast.locks l WHERE l.name = $1`,
        [name],
      );
      const [claim] = await store.read(name);
      expect(claim?.expiresInMs).toBeGreaterThan(30_000);
    }
  });
});

it('advisory locks: holds know no clock; set back, it refuses fences instead of repeating them', async () => {
  await clock.set(0);
  const advisory = new AdvisoryStage(stage.server, stage.url);
  const locks = advisory.locks();
  const hold = await locks.mutex('kept').acquire();
  await clock.set(HOUR);
  const ahead = await locks.mutex('ahead').acquire();
  await ahead.release();
  await clock.set(0);
  await expect(locks.mutex('ahead').acquire({ waitMs: 1_000 })).rejects.toMatchObject({
    code: 'STORE',
    message: expect.stringMatching(/clock is behind/),
  });
  expect(await advisory.sessionsWith('ahead')).toEqual([]);
  hold.assertHeld();
  expect(await advisory.sessionsWith('kept')).toHaveLength(1);
  await clock.set(HOUR);
  const next = await locks.mutex('ahead').acquire();
  expect(next.fence).toBeGreaterThan(ahead.fence);
  await advisory.end();
  await clock.set(0);
});
