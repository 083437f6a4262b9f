import { expect, it } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import { sourceOf } from '../../src/stores/sqlite/database-file.ts';
import { hostOf } from '../../src/stores/sqlite/host-clock.ts';
import { Transactions } from '../../src/stores/sqlite/transactions.ts';

it('a database in memory outlives a statement that fails: what is held there is nowhere else', async () => {
  const { connect } = sourceOf(':memory:', hostOf(systemClock));
  const transactions = new Transactions(systemClock, 'in memory', connect);
  const watchers = () => transactions.run((db) => db.all('watchers', 'x'));
  await transactions.run((db) => db.run('addWatch', 'x', 'tag'));
  const failing = transactions.run((db) => db.run('addWatch', 'x', 2n ** 64n));
  await expect(failing).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
  expect(await watchers()).toHaveLength(1);
  const broken = transactions.run((db) =>
    db.transact(() => {
      db.run('addWatch', 'x', 'other tag');
      throw new Error('half-way');
    }),
  );
  await expect(broken).rejects.toMatchObject({ code: 'STORE' });
  expect(await watchers()).toHaveLength(1);
  await transactions.close(() => {});
});
