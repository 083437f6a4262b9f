import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Faults are made with real processes and servers: one that hangs must fail, not stall the run.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // What is waited for comes within milliseconds, but not on a machine where something else keeps every core busy.
    expect: { poll: { timeout: 15_000 } },
    pool: 'forks',
    maxWorkers: 2,
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
