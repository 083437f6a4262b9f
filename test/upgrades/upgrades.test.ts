import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createLocks, openLocks } from '../../src/index.ts';
import { Schema } from '../../src/stores/postgres/schema.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { LeaseStage } from '../postgres/support/lease-stage.ts';
import { startStage } from '../redis/support/stage.ts';
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

describe('an upgrade while programs run', () => {
  it('PostgreSQL: a hold and a waiter of this version outlive the migrations of a later one', async () => {
    await using stage = await LeaseStage.start();
    const [first, second] = [stage.locks({ ttlMs: 3_000 }), stage.locks()];
    const hold = await first.mutex('job').acquire();
    const waiting = later(second.mutex('job').acquire());
    await eventually('the waiter', async () => (await first.inspect('job')).waiters.length === 1);
    stage.server.psql(stage.url, `BEGIN;\n${new Schema().migrationLock}${NEXT_VERSION}COMMIT;`);
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
    expect(stage.server.psql(stage.url, 'SELECT max(id) FROM holdfast.migrations')).toBe('9000');
  });

  it('SQLite: another file, whose fences are above those of the old one', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-upgrade-'));
    try {
      const fences: bigint[] = [];
      for (const file of ['locks.db', 'locks-of-the-next-format.db']) {
        await using locks = createLocks(sqliteStore(join(folder, file)));
        fences.push(await locks.withLock('job', (hold) => hold.fence));
        fences.push(await locks.withLock('job', (hold) => hold.fence));
      }
      expect(fences).toEqual([...fences].sort((a, b) => (a < b ? -1 : 1)));
      expect(new Set(fences).size).toBe(4);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('Redis: a key in a form that this version does not know is a holder, and stays as it is', async () => {
    await using stage = await startStage();
    await using locks = await openLocks(stage.server.url);
    await stage.admin.set('holdfast:job', '~v9 1700000000000001 later:1:abc', 'PX', 3_000);
    expect(await locks.mutex('job').tryAcquire()).toBeNull();
    expect(await stage.admin.get('holdfast:job')).toBe('~v9 1700000000000001 later:1:abc');
    // Programs of two versions use scripts of their own: those of the other are not in their way.
    await stage.admin.script('FLUSH');
    const hold = await locks.mutex('job').acquire({ waitMs: 30_000 });
    expect(await hold.release()).toBe(true);
  });
});
