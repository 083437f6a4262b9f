import { expect, it } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import { BatchQueue } from '../../src/stores/sqlite/batch-queue.ts';
import { sourceOf } from '../../src/stores/sqlite/source.ts';

it('a database in memory outlives a statement that fails: what is held there is nowhere else', async () => {
  const { connect } = sourceOf(':memory:', 'boot');
  const queue = new BatchQueue(systemClock, 'in memory', connect, () => {});
  const watchers = () => queue.submit(({ db }) => db.all('watchers', 'x'));
  await queue.submit(({ db }) => db.run('addWatch', 'x', 'mark'));
  const failing = queue.submit(({ db }) => db.run('addWatch', 'x', 2n ** 64n));
  await expect(failing).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
  expect(await watchers()).toHaveLength(1);
  const broken = queue.submit(({ transact, db }) =>
    transact(() => {
      db.run('addWatch', 'x', 'other mark');
      throw new Error('half-way');
    }),
  );
  await expect(broken).rejects.toMatchObject({ code: 'STORE' });
  expect(await watchers()).toHaveLength(1);
  await queue.close(() => {});
});
