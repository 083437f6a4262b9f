import { afterAll } from 'vitest';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { openWith } from '../sqlite/support/libraries.ts';
import { describeConformance } from '../support/conformance.ts';

const folder = temporaryFolder();
const traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true } as const;
afterAll(() => folder.remove());

// The other libraries, and later versions of Node.js, have theirs in sqlite-libraries.test.ts.
describeConformance('sqlite (libsql)', {
  traits,
  open: async (options) => {
    const database = openWith('libsql', folder.file('libsql.db'));
    const store = sqliteStore(database, options);
    database.close();
    return store;
  },
});

describeConformance('sqlite (by path)', {
  traits,
  open: async (options) => sqliteStore(folder.file('path.db'), options),
});
