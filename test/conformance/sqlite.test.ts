import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll } from 'vitest';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { openWith } from '../sqlite/support/libraries.ts';
import { describeConformance } from '../support/conformance/describe-conformance.ts';

const folder = temporaryFolder();
const traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true } as const;
afterAll(() => folder.remove());

// Leases go by a virtual clock, so that a slow machine cannot make them run out; the file system's
// wake-ups need a little real time.
const clock = virtualClock();
const time = {
  timeIsFree: true,
  pass: async (ms: number): Promise<void> => {
    await clock.advance(ms);
    await sleep(Math.min(ms, 3));
  },
};

// The other libraries, and later versions of Node.js, have theirs in sqlite-libraries.test.ts.
describeConformance('sqlite (libsql)', {
  traits,
  ...time,
  open: async (options) => {
    const database = openWith('libsql', folder.file('libsql.db'));
    const store = sqliteStore(database, { ...options, clock });
    database.close();
    return store;
  },
});

describeConformance('sqlite (by path)', {
  traits,
  ...time,
  open: async (options) => sqliteStore(folder.file('path.db'), { ...options, clock }),
});
