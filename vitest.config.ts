import { defineConfig } from 'vitest/config';
import { mutate } from './test/mutants/plugin.ts';

const mutant = process.env.HOLDFAST_MUTANT;

export default defineConfig({
  plugins: mutant === undefined ? [] : [mutate(mutant)],
  test: {
    include: ['test/**/*.test.ts'],
    // Faults are made with real processes and servers: one that hangs must fail, not stall the run.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // What is waited for comes within milliseconds, but not on a machine where something else keeps every core busy.
    expect: { poll: { timeout: 15_000 } },
    pool: 'forks',
    maxWorkers: 2,
    // Mutants run the suite in processes of their own; more at once would only wait for each other.
    maxConcurrency: 2,
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
