import { expect, it } from 'vitest';
import { LeaseStage, request } from '../../mysql/support/lease-stage.ts';
import { useStage } from '../../support/hooks/use-stage.ts';

/** All tables are in one file that cannot grow, as on a disk that is full. */
const SETTINGS = { 'innodb-data-file-path': 'ibdata1:12M', 'innodb-file-per-table': 'OFF' };

const stage = await useStage(LeaseStage.start({ settings: SETTINGS }));

it('a full disk: a claim that cannot be stored has not been granted, and says so; holds stay', async () => {
  const store = stage.store();
  const held = request('full-held');
  await store.claim(held);
  const failures: unknown[] = [];
  for (let n = 0; failures.length < 5 && n < 5_000; n += 1)
    await store
      .claim(request(`full-${n}`, { note: 'x'.repeat(60_000) }))
      .catch((error: unknown) => failures.push(error));
  expect(failures).toHaveLength(5);
  for (const failure of failures)
    expect(failure).toMatchObject({
      code: 'STORE',
      applied: 'no',
      message: expect.stringContaining('is full'),
    });
  expect(await store.read('full-held')).toHaveLength(1);
  // InnoDB has no room for what it would need to undo the change either. The hold is not lost by that.
  await expect(store.renew(held, { ttlMs: 60_000 })).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  expect(await store.read('full-held')).toHaveLength(1);
}, 30_000);
