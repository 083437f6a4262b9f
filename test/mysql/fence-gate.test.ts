import { setTimeout as sleep } from 'node:timers/promises';
import mysql, { type PoolConnection } from 'mysql2/promise';
import { beforeAll, expect, it } from 'vitest';
import { mysqlFenceGate } from '../../src/fence/index.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { LeaseStage } from './support/lease-stage.ts';

const stage = await useStage(LeaseStage.start());
beforeAll(async () => {
  await stage.store().read('makes the tables');
});

async function transaction<T>(work: (tx: PoolConnection) => Promise<T>): Promise<T> {
  const tx = await stage.admin.getConnection();
  try {
    await tx.beginTransaction();
    const result = await work(tx);
    await tx.commit();
    return result;
  } catch (error) {
    await tx.rollback();
    throw error;
  } finally {
    tx.release();
  }
}

it('lets a greater fence through, and the same again, and refuses a smaller one', async () => {
  const check = (fence: bigint): Promise<void> =>
    transaction((tx) => mysqlFenceGate(tx).check('order 7', fence));
  for (const fence of [5n, 5n, 2n ** 62n]) await check(fence);
  await expect(check(2n ** 62n - 1n)).rejects.toMatchObject({
    code: 'STALE_FENCE',
    resource: 'order 7',
    latest: 2n ** 62n,
  });
});

it('forgets with a rollback, and keeps names apart that differ only in case or spaces', async () => {
  const failed = transaction(async (tx) => {
    await mysqlFenceGate(tx).check('a', 9n);
    throw new Error('no');
  });
  await expect(failed).rejects.toThrow('no');
  for (const [n, name] of ['a', 'A', 'a ', '🔒', 'x'.repeat(1_024)].entries())
    await transaction((tx) => mysqlFenceGate(tx).check(name, BigInt(n)));
});

it('waits for an earlier holder that still writes, and then refuses the one that is late', async () => {
  let onChecked = (): void => {};
  const checked = new Promise<void>((resolve) => {
    onChecked = resolve;
  });
  const later = transaction(async (tx) => {
    await mysqlFenceGate(tx).check('slow', 20n);
    onChecked();
    await sleep(300);
  });
  await Promise.race([checked, later]);
  const earlier = transaction((tx) => mysqlFenceGate(tx).check('slow', 10n));
  await expect(Promise.all([later, earlier])).rejects.toMatchObject({ code: 'STALE_FENCE' });
});

it('knows a resource by its characters, whatever the character set of the connection is', async () => {
  const latin = await mysql.createConnection({ uri: stage.url, charset: 'latin1' });
  await mysqlFenceGate(latin).check('café', 9n);
  await latin.end();
  const later = transaction((tx) => mysqlFenceGate(tx).check('café', 8n));
  await expect(later).rejects.toMatchObject({ code: 'STALE_FENCE', latest: 9n });
});

it('takes a connection of either API, and says what is missing', async () => {
  const empty = await stage.connection(await stage.server.createDatabase());
  await expect(mysqlFenceGate(empty).check('x', 1n)).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  await stage.store({ url: stage.url, prefix: 'own_' }).read('x');
  await mysqlFenceGate(await stage.connection(), { prefix: 'own_' }).check('x', 1n);
  expect(() => mysqlFenceGate({} as never)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
  await expect(mysqlFenceGate(empty).check('x'.repeat(1_025), 1n)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
});
