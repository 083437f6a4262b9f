import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { type FenceGate, memoryFenceGate, sqliteFenceGate } from '../../src/fence/index.ts';
import { createLocks } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { openWith } from '../sqlite/support/libraries.ts';

const folder = temporaryFolder();
const database = openWith('libsql', folder.file('app.db'));
afterAll(() => {
  database.close();
  folder.remove();
});

const gates: readonly (readonly [string, () => FenceGate])[] = [
  ['memory', memoryFenceGate],
  ['sqlite', () => sqliteFenceGate(database)],
];

let unique = 0;
const fresh = (): string => `resource ${unique++}`;

describe.each(gates)('the %s gate', (_name, make) => {
  it('lets a greater fence through, and the same again, and refuses a smaller one', async () => {
    const gate = make();
    const resource = fresh();
    await gate.check(resource, 5n);
    await gate.check(resource, 5n);
    await gate.check(resource, 2n ** 60n);
    await expect(gate.check(resource, 2n ** 60n - 1n)).rejects.toMatchObject({
      code: 'STALE_FENCE',
      resource,
      fence: 2n ** 60n - 1n,
      latest: 2n ** 60n,
    });
  });

  it('keeps resources apart, whatever they are called', async () => {
    const gate = make();
    for (const resource of ['a', 'A', '__proto__', "'; DROP TABLE holdfast_gate; --", '🔒']) {
      await gate.check(resource + fresh(), 9n);
    }
    await gate.check(fresh(), 1n);
  });

  it('accepts exactly the fences that are not below the greatest before them', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.bigInt(0n, 40n), { maxLength: 30 }), async (fences) => {
        const gate = make();
        const resource = fresh();
        let greatest = 0n;
        for (const fence of fences) {
          const accepted = await gate.check(resource, fence).then(
            () => true,
            () => false,
          );
          expect(accepted).toBe(fence >= greatest);
          if (fence > greatest) greatest = fence;
        }
      }),
      { numRuns: 50 },
    );
  });

  it('refuses what is no fence or no resource, before anything else', async () => {
    const gate = make();
    await expect(gate.check('', 1n)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    // Two of these are one and the same name to a database.
    for (const lone of ['\ud800', 'a\udc00'])
      await expect(gate.check(lone, 1n)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(gate.check('x', 1 as unknown as bigint)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(gate.check('x', -1n)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(gate.check('x', 2n ** 63n)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});

describe('the sqlite gate in the caller’s transaction', () => {
  it('forgets with a rollback and remembers with a commit', async () => {
    const gate = sqliteFenceGate(database);
    const resource = fresh();
    database.exec('BEGIN');
    await gate.check(resource, 10n);
    database.exec('ROLLBACK');
    database.exec('BEGIN');
    await gate.check(resource, 5n);
    database.exec('COMMIT');
    await expect(gate.check(resource, 4n)).rejects.toMatchObject({ code: 'STALE_FENCE', latest: 5n });
  });

  it('works after the transaction that made its table was rolled back', () => {
    const own = openWith('libsql', folder.file('rolled-back.db'));
    own.exec('BEGIN');
    const gate = sqliteFenceGate(own);
    gate.checkSync('x', 1n);
    own.exec('ROLLBACK');
    gate.checkSync('x', 1n);
    expect(() => gate.checkSync('x', 0n)).toThrow(expect.objectContaining({ code: 'STALE_FENCE' }));
    own.close();
  });

  it('outlives the process that wrote, as the database does', () => {
    const path = folder.file('lasting.db');
    const first = openWith('libsql', path);
    sqliteFenceGate(first).checkSync('x', 7n);
    first.close();
    const second = openWith('libsql', path);
    expect(() => sqliteFenceGate(second).checkSync('x', 6n)).toThrow(expect.objectContaining({ latest: 7n }));
    second.close();
  });

  it('stops a holder of the past', async () => {
    const locks = createLocks(sqliteStore(folder.file('locks.db')));
    const gate = sqliteFenceGate(database);
    const resource = fresh();
    const first = await locks.mutex('job').acquire();
    await locks.evict('job', first);
    const second = await locks.mutex('job').acquire();
    await gate.check(resource, second.fence);
    await expect(gate.check(resource, first.fence)).rejects.toMatchObject({ code: 'STALE_FENCE' });
    expect(await first.release()).toBe(false);
    await second.release();
    await locks.close();
  });
});
