import { afterAll, expect, it } from 'vitest';
import { request } from '../../src/testing/store-case.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { openThreadStore } from './support/open-thread-store.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

it('a release that was abandoned before it was called is not sent by the thread', async () => {
  const store = await openThreadStore(`sqlite:${folder.file('locks.db')}`);
  const held = request('a');
  expect(await store.claim(held)).toMatchObject({ granted: true });
  const abandoned = store.release(held, AbortSignal.abort());
  await expect(abandoned).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  expect(await store.read('a')).toHaveLength(1);
  expect(await store.release(held)).toBe(true);
  await store.close();
});
