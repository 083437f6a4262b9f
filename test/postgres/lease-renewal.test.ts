import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, vi } from 'vitest';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { LeaseStage, request } from './support/lease-stage.ts';

const stage = await useStage(LeaseStage.start());

const YEAR_MS = 366 * 86_400_000;

it.each([
  ['exclusive', { kind: 'exclusive' }],
  ['shared', { kind: 'shared' }],
] as const)('a claim of 366 days is stored, read and renewed: %s', async (kind, mode) => {
  const [store, other] = [stage.store(), stage.store()];
  const name = `year-${kind}`;
  const held = request(name, { mode, ttlMs: YEAR_MS });
  expect(await store.claim(held)).toMatchObject({ granted: true, validForMs: YEAR_MS });
  const aYearLeft = async (): Promise<void> => {
    const [claim] = await other.read(name);
    expect(claim?.expiresInMs).toBeGreaterThan(YEAR_MS - 60_000);
    expect(claim?.expiresInMs).toBeLessThanOrEqual(YEAR_MS);
  };
  await aYearLeft();
  expect(await store.renew(held, { ttlMs: 20_000 })).toMatchObject({ held: true });
  expect(await store.renew(held, { ttlMs: YEAR_MS, note: 'done' })).toEqual({
    held: true,
    validForMs: YEAR_MS,
  });
  await aYearLeft();
  expect(await other.claim(request(name, { wait: true }))).toMatchObject({ granted: false });
  // The waiter looks at the lock; that must not cut the lease.
  await aYearLeft();
});

it('a run is remembered for 366 days', async () => {
  const locks = stage.locks();
  expect(await locks.once('yearly', () => 1, { rememberMs: YEAR_MS })).toMatchObject({ ran: true });
  expect(await stage.locks().once('yearly', () => 2)).toEqual({ ran: false, why: 'done' });
});

it('psql may claim for 366 days too', () => {
  const psql = (script: string): string => stage.server.psql(stage.url, script);
  expect(psql(`SELECT granted FROM holdfast.claim('by psql', 'a', ttl_ms => ${YEAR_MS})`)).toBe('t');
  expect(psql(`SELECT holdfast.renew('by psql', 'a', ${YEAR_MS})`)).toBe('t');
  expect(() => psql(`SELECT holdfast.claim('by psql', 'b', ttl_ms => ${YEAR_MS + 1})`)).toThrow(
    /ttl_ms from 1/,
  );
});

it('a renewal wakes the waiters of the lock when it changes the note, and only then', async () => {
  const [store, other] = [stage.store(), stage.store()];
  const held = request('noted', { note: 'first' });
  await store.claim(held);
  const waiters = [store, other, other].map((each) => ({
    each,
    claim: request('noted', { wait: true }),
    wake: vi.fn(),
  }));
  for (const { each, claim, wake } of waiters) await each.claim(claim, undefined, { wake });
  await eventually('all are subscribed', () => waiters.every(({ wake }) => wake.mock.calls.length > 0));
  for (const { each, claim, wake } of waiters) await each.claim(claim, undefined, { wake });
  await stage.listening('noted', 3);
  for (const { wake } of waiters) wake.mockClear();
  await store.renew(held, { ttlMs: 60_000 });
  await store.renew(held, { ttlMs: 60_000, note: 'first' });
  await sleep(300);
  for (const { wake } of waiters) expect(wake).not.toHaveBeenCalled();
  await store.renew(held, { ttlMs: 60_000, note: 'second' });
  await eventually('all are woken', () => waiters.every(({ wake }) => wake.mock.calls.length > 0));
});
