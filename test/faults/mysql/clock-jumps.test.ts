import { expect, it } from 'vitest';
import { LeaseStage, request } from '../../mysql/support/lease-stage.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { serverClock } from '../../support/servers/server-clock.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';
import { renewed } from '../../support/waiting/renewed.ts';

const HOUR = 3_600;
const clock = serverClock(async () => {
  const [row] = await stage.query<{ at: number }>('SELECT UNIX_TIMESTAMP(SYSDATE(6)) AS at');
  return Number(row?.at);
});
const stage = await useStage(LeaseStage.start({ env: clock.env }));

it('a clock that is set forward: the holder is notified within one renewal, and fences rise', async () => {
  await clock.set(0);
  const [locks, others] = [stage.locks({ ttlMs: 9_000 }), stage.locks({ ttlMs: 9_000 })];
  const hold = await locks.mutex('forward').acquire();
  const waiting = later(others.mutex('forward').acquire());
  await eventually('one waits', async () => (await locks.inspect('forward')).waiters.length === 1);
  await clock.set(HOUR);
  const next = await waiting;
  expect(next.fence).toBeGreaterThan(hold.fence);
  await eventually('the first is notified', () => hold.signal.aborted, 8_000);
  await renewed(next);
  expect(await next.release()).toBe(true);
}, 30_000);

it('a clock that is set back: a dead holder is followed after its ttl, and fences rise', async () => {
  await clock.set(HOUR);
  const [store, locks] = [stage.store(), stage.locks({ ttlMs: 9_000 })];
  const dead = await store.claim(request('back', { ttlMs: 2_000 }));
  const reader = await store.claim(request('back-rw', { ttlMs: 2_000, mode: { kind: 'shared' } }));
  const hold = await locks.mutex('kept').acquire();
  await clock.set(-HOUR);
  const [next, writer] = await Promise.all([
    locks.mutex('back').acquire({ waitMs: 10_000 }),
    locks.readWriteLock('back-rw').write.acquire({ waitMs: 10_000 }),
  ]);
  expect(dead.granted && next.fence > dead.fence).toBe(true);
  expect(reader.granted && writer.fence > reader.fence).toBe(true);
  await renewed(hold);
  expect(await hold.release()).toBe(true);
  await Promise.all([next.release(), writer.release()]);
}, 30_000);
