import { afterAll, expect, it, vi } from 'vitest';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { request } from '../../src/testing/store-case.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { temporaryFolder } from './support/folder.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const YEAR_MS = 366 * 86_400_000;

it('a claim of 366 days is stored, read and renewed', async () => {
  const path = folder.file('year.db');
  const [store, other] = [sqliteStore(path), sqliteStore(path)];
  const held = request('year', { ttlMs: YEAR_MS });
  expect(await store.claim(held)).toMatchObject({ granted: true, validForMs: YEAR_MS });
  const aYearLeft = async (): Promise<void> => {
    const [claim] = await other.read('year');
    expect(claim?.expiresInMs).toBeGreaterThan(YEAR_MS - 60_000);
    expect(claim?.expiresInMs).toBeLessThanOrEqual(YEAR_MS);
  };
  await aYearLeft();
  expect(await store.renew(held, { ttlMs: 20_000 })).toMatchObject({ held: true });
  expect(await store.renew(held, { ttlMs: YEAR_MS })).toEqual({ held: true, validForMs: YEAR_MS });
  await aYearLeft();
  const refused = await other.claim(request('year', { wait: true }));
  expect(refused).toEqual({ granted: false, retryAfterMs: expect.any(Number) });
  await Promise.all([store.close(), other.close()]);
});

it('a renewal wakes the waiters of the lock when it changes the note, and only then', async () => {
  const path = folder.file('noted.db');
  const [store, other] = [sqliteStore(path), sqliteStore(path)];
  const held = request('noted', { note: 'first' });
  await store.claim(held);
  const wakes = [store, other].map((each) => ({ each, wake: vi.fn() }));
  for (const { each, wake } of wakes) await each.claim(request('noted', { wait: true }), undefined, { wake });
  await store.renew(held, { ttlMs: 60_000 });
  await store.renew(held, { ttlMs: 60_000, note: 'first' });
  await new Promise((resolve) => setTimeout(resolve, 200));
  for (const { wake } of wakes) expect(wake).not.toHaveBeenCalled();
  await store.renew(held, { ttlMs: 60_000, note: 'second' });
  await eventually('both are woken', () => wakes.every(({ wake }) => wake.mock.calls.length > 0));
  await Promise.all([store.close(), other.close()]);
});
