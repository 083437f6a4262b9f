import { chmodSync, linkSync, rmSync, writeFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { createLocks, type Finding } from '../../src/index.ts';
import { openStore } from '../../src/open-store.ts';
import { checkFileSystem, judgeJournal } from '../../src/stores/sqlite/diagnose.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { diagnose, expectProblems, findingOf } from '../support/doctor/findings.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

/** As `holdfast doctor` does it: also for a file that the store refuses. */
async function findingsOf(path: string): Promise<Finding[]> {
  const locks = createLocks(await openStore(`sqlite:${path}`, { openLater: true }));
  try {
    return await locks.diagnose();
  } finally {
    await locks.close();
  }
}

describe.concurrent('a SQLite file', () => {
  it('that is set up well has no problems', async () => {
    const findings = await expectProblems(() => diagnose(`sqlite:${folder.file('good.db')}`), []);
    expect(findingOf(findings, 'sqlite-journal-mode').found).toBe('the journal mode is wal');
    expect(findingOf(findings, 'sqlite-library').found).toMatch(
      /^(?:node:sqlite|better-sqlite3|libsql), SQLite 3\.\d+/,
    );
    await expectProblems(() => diagnose('sqlite::memory:'), []);
  });

  it('with a second hard link is reported, also while a store has it open', async () => {
    const [path, other] = [folder.file('linked.db'), folder.file('link.db')];
    const store = sqliteStore(path);
    const locks = createLocks(store);
    await locks.inspect('x');
    linkSync(path, other);
    await expectProblems(() => locks.diagnose(), ['sqlite-file: fail']);
    await locks.close();
    await expectProblems(() => findingsOf(path), ['sqlite-file: fail']);
  });

  it('in a folder that is missing is reported', async () => {
    await expectProblems(
      () => findingsOf(folder.file('missing/locks.db')),
      ['sqlite-file-system: unknown', 'sqlite-file: fail'],
    );
  });

  it('that every user may write to is reported', async () => {
    const path = folder.file('shared.db');
    await sqliteStore(path).close();
    chmodSync(path, 0o666);
    await expectProblems(() => findingsOf(path), ['sqlite-file: warn']);
  });

  it('that is not a database is reported', async () => {
    const path = folder.file('letter.txt');
    writeFileSync(path, 'Dear reader, '.repeat(1_000));
    await expectProblems(
      () => findingsOf(path),
      ['sqlite-journal-mode: unknown', 'sqlite-library: unknown', 'store-answers: fail'],
    );
  });

  it('whose waiters cannot be notified is reported', async () => {
    const path = folder.file('quiet.db');
    writeFileSync(`${path}-wake`, 'not a folder');
    await expectProblems(() => findingsOf(path), ['wake-up: warn']);
    rmSync(`${path}-wake`);
    await expectProblems(() => findingsOf(path), []);
  });

  it('on a network file system, or on a system that does not tell, is reported', () => {
    expect(checkFileSystem('/x/locks.db', 'linux', () => 'NFS')).toMatchObject({
      level: 'fail',
      found: expect.stringContaining('(NFS)'),
    });
    expect(checkFileSystem('/x/locks.db', 'darwin')).toMatchObject({ level: 'unknown' });
  });

  it('in another journal mode is reported', () => {
    expect(judgeJournal('/x/locks.db', 'delete')).toMatchObject({ level: 'fail' });
  });
});
