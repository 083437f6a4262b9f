import { beforeAll, expect, it } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { LeaseStage } from '../postgres/support/lease-stage.ts';
import { expectGrantRule } from '../support/conformance/queue-model.ts';
import { useStage } from '../support/hooks/use-stage.ts';

const stage = await useStage(LeaseStage.start());
let stores: Store[];
beforeAll(async () => {
  stores = [stage.store(), stage.store()];
  await stores[0]?.read('makes the tables');
});

/** Ends the time of a claim, whether it holds or waits. */
async function expire(name: string, id: string): Promise<void> {
  const past = "clock_timestamp() - interval '1 second'";
  const values = [name, id];
  await stage.query(`UPDATE holdfast.locks SET expires_at = ${past} WHERE name = $1 AND holder = $2`, values);
  for (const table of ['shares', 'waiters'])
    await stage.query(
      `UPDATE holdfast.${table} SET expires_at = ${past} WHERE name = $1 AND id = $2`,
      values,
    );
  await stage.query("UPDATE holdfast.locks SET ends_at = '-infinity' WHERE name = $1", [name]);
}

async function expectEmpty(name: string): Promise<void> {
  await stage.query('SELECT holdfast.prune(0)');
  const parts = ['locks', 'shares', 'waiters'].map(
    (table) => `SELECT name FROM holdfast.${table} WHERE name = $1`,
  );
  expect(await stage.query(parts.join(' UNION ALL '), [name])).toEqual([]);
}

it('the SQL functions follow the grant rule, step by step', async () => {
  await expectGrantRule({ stores, numRuns: 400, expire, expectEmpty });
}, 90_000);
