import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Faults are made with real processes and servers: one that hangs must fail, not stall the run.
    testTimeout: 30_000,
    hookTimeout: 120_000,
    pool: 'forks',
    maxWorkers: 2,
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
