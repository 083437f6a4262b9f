import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createLocks, type Locks, openLocks } from '../../src/index.ts';
import { Schema } from '../../src/stores/postgres/schema.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { FORMAT } from '../../src/stores/sqlite/schema.ts';
import { LeaseStage as MysqlStage } from '../mysql/support/lease-stage.ts';
import { LeaseStage } from '../postgres/support/lease-stage.ts';
import { startStage } from '../redis/support/stage.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { openWith } from '../sqlite/support/libraries.ts';
import { eventually, later, renewals } from '../support/waiting/eventually.ts';

/** What a later version might add: a column, a function, and another body for a function of today. */
const NEXT_VERSION = `
ALTER TABLE holdfast.locks ADD COLUMN note_of_later text NOT NULL DEFAULT 'later';
CREATE FUNCTION holdfast.later() RETURNS text LANGUAGE sql AS 'SELECT ''later''';
CREATE OR REPLACE FUNCTION holdfast.list(
  prefix text DEFAULT '', after text DEFAULT '', page integer DEFAULT 1000
) RETURNS SETOF text LANGUAGE sql STABLE AS $$
  SELECT l.name FROM holdfast.locks l WHERE l.holder IS NOT NULL AND left(l.name, length(prefix)) = prefix
$$;
INSERT INTO holdfast.migrations (id, name) VALUES (9000, 'later');
`;

/** The same for MySQL, which commits each of them. */
const NEXT_MYSQL_VERSION = [
  "ALTER TABLE holdfast_locks ADD COLUMN note_of_later VARCHAR(20) NOT NULL DEFAULT 'later'",
  'CREATE TABLE holdfast_later (id INT PRIMARY KEY)',
  "INSERT INTO holdfast_migrations (id, name) VALUES (9000, 'later')",
];

/** The time a moment ago in µs, as the fences of SQLite are. */
const FENCE_OF_OTHER_FORMAT = BigInt(Date.now()) * 1_000n;

/** The tables of format 1, with a hold. A later format differs in more than this version can know. */
const tablesOfFormat = (format: number): string => `
PRAGMA journal_mode = WAL;
CREATE TABLE holdfast_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO holdfast_meta VALUES ('format', '${format}');
CREATE TABLE holdfast_boot (number INTEGER PRIMARY KEY, boot TEXT NOT NULL UNIQUE);
CREATE TABLE holdfast_hold (
  name TEXT NOT NULL, id TEXT NOT NULL, fence INTEGER NOT NULL, count INTEGER NOT NULL, of INTEGER NOT NULL,
  waited INTEGER NOT NULL, boot INTEGER NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL,
  wall_until INTEGER NOT NULL, note TEXT NOT NULL, PRIMARY KEY (name, id)
) WITHOUT ROWID;
INSERT INTO holdfast_hold VALUES ('job', 'a', ${FENCE_OF_OTHER_FORMAT}, 0, 0, 0, 0, 0, 0, 0, '');
CREATE TABLE holdfast_line (
  name TEXT NOT NULL, place INTEGER NOT NULL, id TEXT NOT NULL, count INTEGER NOT NULL, of INTEGER NOT NULL,
  ttl INTEGER NOT NULL, boot INTEGER NOT NULL, until INTEGER NOT NULL, wall_until INTEGER NOT NULL,
  note TEXT NOT NULL, mark TEXT NOT NULL, turn INTEGER NOT NULL, PRIMARY KEY (name, place)
) WITHOUT ROWID;
`;

/** A hold and a waiter outlive the migrations, and a program that starts after them works. */
async function expectSurvival(
  stage: { locks(options?: { ttlMs: number }): Locks },
  migrate: () => Promise<void>,
): Promise<void> {
  const [first, second] = [stage.locks({ ttlMs: 8_000 }), stage.locks()];
  const hold = await first.mutex('job').acquire();
  const waiting = later(second.mutex('job').acquire());
  await eventually('the waiter', async () => (await first.inspect('job')).waiters.length === 1);
  await migrate();
  await renewals(first, 2);
  hold.assertHeld();
  expect(await hold.release()).toBe(true);
  const next = await waiting;
  expect(next.fence).toBeGreaterThan(hold.fence);
  // A program of this version that starts now neither migrates nor refuses.
  const late = stage.locks();
  expect(await late.mutex('job').tryAcquire()).toBeNull();
  await next.release();
  const last = await late.mutex('job').acquire();
  expect(last.fence).toBeGreaterThan(next.fence);
}

describe('an upgrade while programs run', () => {
  it('PostgreSQL: a hold and a waiter of this version outlive the migrations of a later one', async () => {
    await using stage = await LeaseStage.start();
    await expectSurvival(stage, async () => {
      stage.server.psql(stage.url, `BEGIN;\n${new Schema().migrationLock}${NEXT_VERSION}COMMIT;`);
    });
    expect(stage.server.psql(stage.url, 'SELECT max(id) FROM holdfast.migrations')).toBe('9000');
  });

  it('MySQL: a hold and a waiter of this version outlive the migrations of a later one', async () => {
    await using stage = await MysqlStage.start();
    await expectSurvival(stage, async () => {
      for (const text of NEXT_MYSQL_VERSION) await stage.query(text);
    });
    expect(await stage.query('SELECT MAX(id) AS id FROM holdfast_migrations')).toEqual([{ id: 9_000 }]);
  });

  it.each([
    ['an earlier', 1],
    ['a later', FORMAT + 1],
  ])(
    'SQLite: a file of %s format is refused unchanged, and another file has greater fences',
    async (_, format) => {
      const folder = temporaryFolder();
      const [path, another] = [folder.file('locks.db'), folder.file('locks-of-this-format.db')];
      const written = openWith('libsql', path);
      written.exec(tablesOfFormat(format));
      written.close();
      const before = readFileSync(path);
      expect(() => sqliteStore(path)).toThrow(`its format is ${format}, this version knows ${FORMAT}`);
      expect(readFileSync(path).equals(before)).toBe(true);
      const locks = createLocks(sqliteStore(another));
      expect(await locks.withLock('job', (hold) => hold.fence)).toBeGreaterThan(FENCE_OF_OTHER_FORMAT);
      await locks.close();
      folder.remove();
    },
  );

  it('Redis: a key in a form that this version does not know is a holder, and stays as it is', async () => {
    await using stage = await startStage();
    await using locks = await openLocks(stage.server.url);
    await stage.admin.set('holdfast:job', '~v9 1700000000000001 later:1:abc', 'PX', 6_000);
    expect(await locks.mutex('job').tryAcquire()).toBeNull();
    expect(await stage.admin.get('holdfast:job')).toBe('~v9 1700000000000001 later:1:abc');
    // Programs of two versions use scripts of their own: those of the other are not in their way.
    await stage.admin.script('FLUSH');
    const hold = await locks.mutex('job').acquire({ waitMs: 30_000 });
    expect(await hold.release()).toBe(true);
  });
});
