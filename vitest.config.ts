import { defineConfig } from 'vitest/config';
import { dashboardPage, PAGE_NAME } from './scripts/dashboard-page.mjs';
import { NAME, threadProgram } from './scripts/thread-program.mjs';

export default defineConfig({
  define: {
    [NAME]: JSON.stringify(threadProgram()),
    [PAGE_NAME]: JSON.stringify(dashboardPage()),
  },
  test: {
    include: ['test/**/*.test.ts'],
    // The tests start real processes and servers: one that hangs must fail, not stall the run.
    testTimeout: 60_000,
    env: { HOLDFAST_INSTALL_SERVERS: '1' },
    hookTimeout: 120_000,
    // An expected change comes within milliseconds, unless other programs keep every core busy.
    expect: { poll: { timeout: 15_000 } },
    pool: 'forks',
    // Most tests wait for a server. A fourth worker makes the run shorter by a seventh, but on two
    // cores replies are then so late that tests of time limits begin to fail.
    maxWorkers: 3,
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
