import { beforeAll, describe, expect, it } from 'vitest';
import { PRUNE, RAISE_FLOOR, READ, WRITE } from '../../src/stores/mysql/statements.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { LeaseStage, request } from './support/lease-stage.ts';

const stage = await useStage(LeaseStage.start());
beforeAll(async () => {
  await stage.store().claim(request('held'));
});

interface Stored {
  readonly version: string;
  readonly floor: string;
}

async function stored(): Promise<Stored | undefined> {
  const columns = 'CAST(l.version AS CHAR) AS version, CAST(f.fence AS CHAR) AS floor, l.holder';
  const text = `SELECT ${columns} FROM holdfast_locks l, holdfast_floor f WHERE l.name = 'held'`;
  return (await stage.query<Stored>(text))[0];
}

/** A proxy that shares connections may lose what the store has set in its session. */
describe.each(['STRICT_ALL_TABLES', ''])('a write in a session whose sql_mode is "%s"', (mode) => {
  const write = async (row: Partial<Stored>): Promise<unknown> => {
    const before = await stored();
    const { version, floor } = { ...before, ...row };
    const tx = await stage.admin.getConnection();
    try {
      await tx.query('SET SESSION sql_mode = ?', [mode]);
      const columns = [version, '7', floor, '1', 'another', 1, 1, 1, '', null];
      return await tx.execute(WRITE, [
        JSON.stringify([
          ['held', ...columns],
          ['new', null, ...columns.slice(1)],
        ]),
      ]);
    } finally {
      await tx.query('SET SESSION sql_mode = DEFAULT');
      tx.release();
    }
  };

  it.each([
    ['the lock has changed since it was read', { version: '1' }],
    ['the floor of the fences has risen since it was read', { floor: '-1' }],
  ])('fails when %s, and writes none of its rows', async (_when, row) => {
    const before = await stored();
    await expect(write(row)).rejects.toMatchObject({ errno: 1690 });
    expect(await stored()).toEqual(before);
    expect(await stage.query("SELECT 1 FROM holdfast_locks WHERE name IN ('new', '')")).toEqual([]);
  });
});

it('a late write does not bring back a hold whose row was pruned since it was read', async () => {
  const store = stage.store();
  const [late, other] = [request('late'), request('other')];
  const prune = async (name: string, fence: string, version: string): Promise<void> => {
    await stage.admin.execute(RAISE_FLOOR, [fence]);
    await stage.admin.execute(PRUNE, [JSON.stringify([[name, version]])]);
  };
  const read = async (name: string) => {
    const [row] = await stage.query<Record<string, unknown>>(
      `SELECT CAST(version AS CHAR) AS version, CAST(fence AS CHAR) AS fence FROM holdfast_locks
        WHERE name = '${name}'`,
    );
    return { version: String(row?.version), fence: String(row?.fence) };
  };
  await store.claim(late);
  // A lock that is claimed later and pruned raises the floor above the fence of the first one.
  await store.claim(other);
  await store.release(other);
  const later = await read('other');
  await prune('other', later.fence, later.version);
  const [rows] = await stage.admin.execute({ sql: READ, rowsAsArray: true }, [
    JSON.stringify([['late', null]]),
  ]);
  const [[, floor, name, was, fence, holder, granted, expires, ttl, note]] = rows as unknown as [unknown[]];
  await store.release(late);
  const { version } = await read('late');
  await prune('late', String(fence), version);
  const row = [name, was, '1', floor, fence, holder, granted, expires, ttl, note, null].map((each) =>
    Buffer.isBuffer(each) ? each.toString() : each,
  );
  await expect(stage.admin.execute(WRITE, [JSON.stringify([row])])).rejects.toMatchObject({ errno: 1690 });
  expect(await store.read('late')).toEqual([]);
});
