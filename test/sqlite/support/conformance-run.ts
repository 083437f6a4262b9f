import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { storeCases, virtualClock } from '../../../src/testing/index.ts';
import { type LibraryName, openWith } from './libraries.ts';

// Runs the conformance suite with the Node.js that runs this file, and prints the failures. Node.js 22.18
// and later run it without a compiler.

const library = process.argv[2] as LibraryName;
const folder = mkdtempSync(join(tmpdir(), 'holdfast-conformance-'));
// Leases count by a virtual clock, so that they do not expire on a slow machine. The notifications of the
// file system need a little real time.
const clock = virtualClock();
const env = {
  timeIsFree: true,
  pass: async (ms: number) => {
    await clock.advance(ms);
    await sleep(Math.min(ms, 3));
  },
  open: async (more?: { queueMax?: number | undefined }) => {
    const options = { ...more, clock };
    // By its path, where it is the library that the store chooses itself; handed in otherwise.
    if (library === 'node:sqlite') return sqliteStore(join(folder, 'locks.db'), options);
    const database = openWith(library, join(folder, 'locks.db'));
    const store = sqliteStore(database, options);
    database.close();
    return store;
  },
};
const probe = await env.open();
const failures: string[] = [];
let passed = 0;
for (const each of storeCases.filter((one) => one.leftOut(probe.traits, env) === null)) {
  try {
    await each.run(env);
    passed += 1;
  } catch (error) {
    failures.push(`${each.name}: ${(error as Error).stack}`);
  }
}
await probe.close();
rmSync(folder, { recursive: true, force: true });
console.log(JSON.stringify({ node: process.version, library, passed, failures }));
