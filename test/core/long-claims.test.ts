import { expect, it, vi } from 'vitest';
import type { Clock } from '../../src/clock.ts';
import { memoryStore } from '../../src/stores/memory/memory-store.ts';
import { EXCLUSIVE, request } from '../../src/testing/store-case.ts';
import { virtualClock } from '../../src/testing/virtual-clock.ts';

const DAY_MS = 86_400_000;
const YEAR_MS = 366 * DAY_MS;
const TIMEOUT_MAX_MS = 2 ** 31 - 1;

it('a claim of 366 days is kept and renewed, and a waiter behind it is granted at its end', async () => {
  const virtual = virtualClock();
  // Node.js cannot wait for longer than 24 days, so a timer that fires may have to be started again.
  const clock: Clock = {
    monotonicMs: () => virtual.monotonicMs(),
    wallMs: () => virtual.wallMs(),
    random: () => virtual.random(),
    startTimer: (ms, fire, options) => virtual.startTimer(Math.min(ms, TIMEOUT_MAX_MS), fire, options),
  };
  const store = memoryStore({ clock });
  const held = request('year', { ttlMs: 1_000 });
  await store.claim(held);
  expect(await store.renew(held, { ttlMs: YEAR_MS })).toEqual({ held: true, validForMs: YEAR_MS });
  expect(await store.read('year')).toMatchObject([{ id: held.id, expiresInMs: YEAR_MS }]);
  const wake = vi.fn();
  const waiting = request('year', { ttlMs: 2 * YEAR_MS, wait: true });
  expect(await store.claim(waiting, undefined, { wake })).toMatchObject({ granted: false });
  await virtual.advance(YEAR_MS - DAY_MS);
  expect(wake).not.toHaveBeenCalled();
  expect(await store.read('year')).toMatchObject([{ id: held.id, expiresInMs: DAY_MS }, { id: waiting.id }]);
  await virtual.advance(DAY_MS);
  expect(wake).toHaveBeenCalledExactlyOnceWith({ fence: expect.any(BigInt), validForMs: 2 * YEAR_MS });
  expect(await store.read('year')).toMatchObject([{ id: waiting.id, granted: true, mode: EXCLUSIVE }]);
});

it('a renewal in memory wakes the waiters of the lock when it changes the note, and only then', async () => {
  const store = memoryStore();
  const held = request('noted', { note: 'first' });
  await store.claim(held);
  const wakes = [vi.fn(), vi.fn()];
  for (const wake of wakes) await store.claim(request('noted', { wait: true }), undefined, { wake });
  await store.renew(held, { ttlMs: 60_000 });
  await store.renew(held, { ttlMs: 60_000, note: 'first' });
  for (const wake of wakes) expect(wake).not.toHaveBeenCalled();
  await store.renew(held, { ttlMs: 60_000, note: 'second' });
  for (const wake of wakes) expect(wake).toHaveBeenCalledExactlyOnceWith();
});

it('a holder in memory that asks again for a shorter time is followed at its end', async () => {
  const clock = virtualClock();
  const store = memoryStore({ clock });
  const held = request('shorter', { ttlMs: 9_000 });
  await store.claim(held);
  const wake = vi.fn();
  await store.claim(request('shorter', { wait: true }), undefined, { wake });
  expect(await store.claim({ ...held, ttlMs: 1_000 })).toMatchObject({ granted: true, validForMs: 1_000 });
  await clock.advance(999);
  expect(wake).not.toHaveBeenCalled();
  await clock.advance(1);
  expect(wake).toHaveBeenCalledOnce();
  await store.close();
  await clock.advance(60_000);
  expect(clock.timers).toBe(0);
});
