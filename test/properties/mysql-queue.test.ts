import mysql from 'mysql2';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { mysqlStore } from '../../src/stores/mysql/index.ts';
import type { LockRow } from '../../src/stores/mysql/lock-row.ts';
import { expectGrantRule } from '../support/conformance/queue-model.ts';
import { type MysqlServer, startSharedMysql } from '../support/servers/mysql.ts';

let server: MysqlServer;
let pool: mysql.Pool;
let stores: [Store, Store];
beforeAll(async () => {
  server = await startSharedMysql();
  pool = mysql.createPool(await server.createDatabase());
  stores = [mysqlStore(pool), mysqlStore(pool)];
  await stores[0].read('makes the tables');
});
afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await pool.promise().end();
  await server.stop();
});

const query = async (text: string, values: unknown[]): Promise<unknown> =>
  (await pool.promise().query(text, values))[0];

/** Ends the time of a claim, whether it holds or waits. */
async function expire(name: string, id: string): Promise<void> {
  await query('UPDATE holdfast_locks SET expires_at = 1 WHERE name = ? AND holder = ?', [name, id]);
  const rows = (await query('SELECT queue FROM holdfast_locks WHERE name = ?', [name])) as {
    queue: Buffer | null;
  }[];
  const text = rows[0]?.queue?.toString();
  if (text === undefined) return;
  const { holds, queue } = JSON.parse(text) as Pick<LockRow, 'holds' | 'queue'>;
  const lapsed = JSON.stringify({
    holds: holds.map((hold) => (hold.id === id ? { ...hold, expiresAtUs: 1 } : hold)),
    queue: queue.map((waiting) => (waiting.id === id ? { ...waiting, seenAtUs: 1 } : waiting)),
  });
  await query('UPDATE holdfast_locks SET queue = ?, version = version + 1 WHERE name = ?', [lapsed, name]);
}

/** The row itself stays until it is pruned. */
async function expectEmpty(name: string): Promise<void> {
  expect(await stores[1].read(name)).toEqual([]);
}

it('the statements follow the grant rule, step by step', async () => {
  await expectGrantRule({ stores, numRuns: 300, expire, expectEmpty });
}, 90_000);
