import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createLocks } from 'holdfast';
import { type SqliteDatabase, sqliteStore } from 'holdfast/sqlite';
import lockfile from 'proper-lockfile';
import { type Finding, median, microsecondsEach } from './measure.ts';

const ROUNDS = 15;
const require = createRequire(import.meta.url);

/** The library that the store itself would choose here. */
export function openDatabase(path: string): { library: string; database: SqliteDatabase } {
  if (Number.parseInt(process.versions.node, 10) < 22) {
    const Database = require('libsql') as new (path: string) => SqliteDatabase;
    return { library: 'libsql', database: new Database(path) };
  }
  const { DatabaseSync } = require('node:sqlite') as { DatabaseSync: new (path: string) => SqliteDatabase };
  return { library: 'node:sqlite', database: new DatabaseSync(path) };
}

/** The least that a lock with a lease can be made of: one statement to take it, one to give it back. */
export function rawLock(database: SqliteDatabase): (name: string, n: number) => () => void {
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL');
  database.exec('CREATE TABLE lock (name TEXT PRIMARY KEY, owner TEXT, until INTEGER) WITHOUT ROWID');
  const take = database.prepare(
    `INSERT INTO lock VALUES (?, ?, ?) ON CONFLICT (name)
      DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE until < ?`,
  );
  const give = database.prepare('DELETE FROM lock WHERE name = ? AND owner = ?');
  return (name, n) => {
    const owner = `web-1:4711:k3j9#0f1e2d3c4b5a.${n}`;
    const now = Date.now();
    take.run(name, owner, now + 30_000, now);
    return () => void give.run(name, owner);
  };
}

/** Measures all three in each round, so that other load affects them alike. The median ratio counts. */
export async function uncontended(folder: string): Promise<Finding[]> {
  const { library, database } = openDatabase(`${folder}/raw.db`);
  const acquireRaw = rawLock(database);
  const raw = (n: number): void => acquireRaw('name', n)();
  const locks = createLocks(sqliteStore(`${folder}/ours.db`));
  const mutex = locks.mutex('name');
  const file = `${folder}/resource`;
  writeFileSync(file, '');
  const ours = async (): Promise<void> => void (await (await mutex.acquire()).release());
  const theirs = async (): Promise<void> => await (await lockfile.lock(file))();
  const rounds: { raw: number; ours: number; theirs: number }[] = [];
  for (let round = 0; round <= ROUNDS; round += 1) {
    const result = {
      raw: await microsecondsEach(1_500, raw),
      ours: await microsecondsEach(1_500, ours),
      theirs: await microsecondsEach(150, theirs),
    };
    if (round > 0) rounds.push(result);
  }
  await locks.close();
  database.close();
  const times = (key: 'raw' | 'ours' | 'theirs'): string =>
    `${median(rounds.map((each) => each[key])).toFixed(1)} µs`;
  const toRaw = median(rounds.map((each) => each.raw / each.ours));
  const toTheirs = median(rounds.map((each) => each.theirs / each.ours));
  return [
    {
      what: `acquire + release, against two raw statements (${library})`,
      value: `${toRaw.toFixed(2)}× (${times('ours')} : ${times('raw')})`,
      target: '≥ 0.6×',
      met: toRaw >= 0.6,
    },
    {
      what: 'acquire + release, against proper-lockfile',
      value: `${toTheirs.toFixed(1)}× (${times('ours')} : ${times('theirs')})`,
      target: '≥ 5×',
      met: toTheirs >= 5,
    },
  ];
}
