import { defineConfig } from 'vitest/config';
import { dashboardPage, PAGE_NAME } from './scripts/dashboard-page.mjs';
import { NAME, threadProgram } from './scripts/thread-program.mjs';
import { SlowFirst } from './test/support/order/slow-first.ts';

/**
 * Files in which nothing depends on how fast they run: compilers, bundlers, searches, the page in a
 * browser, most of the command line. They need much processor time, so `npm test` runs them beside
 * the others, at a lower priority.
 */
const PATIENT = [
  'test/{models,mutants,simulation,types}/*.test.ts',
  'test/package/!(comparison).test.ts',
  // One of them measures how long a frame takes.
  'test/dashboard/browser/!(many).test.ts',
  'test/cli/{completion,dashboard,default-store,evict,exit-codes,inspect,pipes,verbs,watch*}.test.ts',
  'test/tidy*.test.ts',
];

export default defineConfig({
  define: {
    [NAME]: JSON.stringify(threadProgram()),
    [PAGE_NAME]: JSON.stringify(dashboardPage()),
  },
  test: {
    projects: [
      { extends: true, test: { name: 'timed', include: ['test/**/*.test.ts'], exclude: PATIENT } },
      {
        extends: true,
        test: { name: 'patient', include: PATIENT, testTimeout: 240_000, hookTimeout: 240_000 },
      },
    ],
    // The tests start real processes and servers: one that hangs must fail, not stall the run.
    testTimeout: 60_000,
    env: { HOLDFAST_INSTALL_SERVERS: '1' },
    hookTimeout: 120_000,
    // An expected change comes within milliseconds, unless other programs keep every core busy.
    expect: { poll: { timeout: 15_000 } },
    sequence: { sequencer: SlowFirst },
    pool: 'forks',
    // Most tests wait for a server. A fourth worker makes the run shorter by a seventh, but on two
    // cores replies are then so late that tests of time limits begin to fail.
    maxWorkers: 3,
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
