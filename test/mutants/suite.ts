import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createVitest, type TestSpecification } from 'vitest/node';
import { CALL_MUTANTS } from './call-mutants.ts';
import { HOLD_MUTANTS } from './hold-mutants.ts';
import type { Mutant } from './mutant.ts';
import { mutate } from './plugin.ts';
import { STORE_MUTANTS } from './store-mutants.ts';
import { mutated, symbolsIn } from './symbols.ts';

/** More than enough: each of these defects shows within the first few hundred. */
const INTERLEAVINGS = '3000';

// `suite.ts ROOT REPORT`: runs for each mutant the test that must catch it, all in one Vitest: one
// process for each mutant would take longer than all other tests.
const [, , root = '', report = ''] = process.argv;
const mutants = [...STORE_MUTANTS, ...HOLD_MUTANTS, ...CALL_MUTANTS];
const symbols = symbolsIn(root);

const vitest = await createVitest('test', {
  root,
  config: false,
  watch: false,
  reporters: [{}],
  maxWorkers: 2,
  projects: mutants.map((mutant, n) => ({
    plugins: [mutate(mutated(symbols, mutant))],
    server: { watch: null, ws: false },
    test: {
      name: `${n}`,
      root,
      include: [mutant.test],
      pool: 'threads' as const,
      // A defect may make the test hang.
      testTimeout: 15_000,
      env: { HOLDFAST_INTERLEAVINGS: INTERLEAVINGS },
    },
  })),
});

function specify({ test, by }: Mutant, index: number): TestSpecification {
  const project = vitest.projects.find(({ name }) => name === `${index}`);
  if (project === undefined) throw new Error(`there is no project ${index}`);
  const testNamePattern = new RegExp(by.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return project.createSpecification(resolve(root, test), { testNamePattern });
}

/** The results of the tests that ran: one of them must be `failed`. */
const statesOf = ({ testModule }: TestSpecification): string[] =>
  [...(testModule?.children.allTests() ?? [])]
    .map((test) => test.result().state)
    .filter((state) => state !== 'skipped');

const specifications = mutants.map(specify);
await vitest.runTestSpecifications(specifications);
const states = mutants.map(({ mistake }, n) => [mistake, specifications.slice(n, n + 1).flatMap(statesOf)]);
writeFileSync(report, JSON.stringify(Object.fromEntries(states)));
await vitest.close();
// Tests have failed, as they should.
process.exitCode = 0;
