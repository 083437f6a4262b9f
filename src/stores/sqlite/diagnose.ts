import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import {
  type DiagnoseContext,
  type Finding,
  fail,
  ok,
  runCheck,
  unknown,
  type Verdict,
  warn,
} from '../../store/finding.ts';
import { fileProblem, networkFileSystem } from './database-file.ts';
import type { FileNotifier } from './file-notifier.ts';
import type { Transactions } from './transactions.ts';

/** The checks of a database and of its file. `path`: `null` in memory. */
export async function diagnoseSqlite(
  context: DiagnoseContext,
  path: string | null,
  transactions: Transactions,
  notifier: FileNotifier,
): Promise<readonly Finding[]> {
  const file: readonly Finding[] =
    path === null
      ? []
      : await Promise.all([
          runCheck(context, 'sqlite-file-system', () => checkFileSystem(path)),
          runCheck(context, 'sqlite-file', () => checkFile(path)),
        ]);
  // What cannot be opened safely is not opened to look inside.
  if (file.some(({ level }) => level === 'fail')) return file;
  const facts = transactions.run((db) => db.facts(), context.signal);
  return await Promise.all([
    ...file,
    runCheck(context, 'sqlite-journal-mode', async () => judgeJournal(path, (await facts).journalMode)),
    runCheck(context, 'sqlite-library', async () => judgeLibrary(await facts)),
    runCheck(context, 'wake-up', () => checkNotifier(notifier)),
  ]);
}

/** `platform`, `networkOf`: for tests. */
export function checkFileSystem(
  path: string,
  platform: string = process.platform,
  networkOf: (folder: string) => string | null = networkFileSystem,
): Verdict {
  const advice = 'Put the file on a local disk of the host, or use a server.';
  if (platform !== 'linux')
    return unknown(
      `the file system is not known on ${platform}`,
      'A network file system is not safe.',
      advice,
    );
  const network = networkOf(dirname(path));
  if (network === null) return ok('the file is on a local file system', 'All processes of the host see it.');
  return fail(
    `the file is on a network file system (${network})`,
    'The locks of two hosts do not exclude each other there. The store refuses the file.',
    advice,
  );
}

function checkFile(path: string): Verdict {
  const problem = fileProblem(path);
  if (problem !== null)
    return fail(
      problem,
      'The store refuses the file: no lock can be acquired.',
      'Change that, or use another file.',
    );
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
  if ((mode & 0o002) !== 0)
    return warn(
      'every user of this host may write to the file',
      'Any program can remove locks that are held, and then two hold one lock.',
      'Take the right to write away from other users (chmod o-w).',
    );
  return ok('this user may write to the file, which has one name', 'Every process uses the same log.');
}

/** Only the write-ahead log lets processes read while one of them writes. */
export function judgeJournal(path: string | null, mode: string): Verdict {
  const found = `the journal mode is ${mode}`;
  if (path === null) return ok(found, 'The database is in memory: other processes are not excluded.');
  if (mode === 'wal') return ok(found, 'A process that is killed while it writes harms no other.');
  return fail(
    found,
    'Processes that use another journal mode lock each other out of the file.',
    'Close the program that has changed it, and open the store again.',
  );
}

function judgeLibrary({ library, version }: { readonly library: string; readonly version: string }): Verdict {
  return ok(
    `${library}, SQLite ${version}`,
    'Processes may use different libraries for the file; within one process, use only one.',
  );
}

function checkNotifier(notifier: FileNotifier): Verdict {
  notifier.listen();
  if (notifier.isListening)
    return ok('waiters are notified by the file system', 'A lock is handed to the next waiter at once.');
  return warn(
    'the file system does not notify this process',
    'Waiters poll, so that a handoff takes up to 250 ms. Exclusion and fences are not affected.',
    'Let this user write to the folder of the file, and raise fs.inotify.max_user_instances.',
  );
}
