import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { compiled } from '../support/process/compiled.ts';
import { CALL_MUTANTS } from './call-mutants.ts';
import { HOLD_MUTANTS } from './hold-mutants.ts';
import { STORE_MUTANTS } from './store-mutants.ts';
import { mutated, symbolsIn } from './symbols.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SUITE = fileURLToPath(new URL('./suite.ts', import.meta.url));

/** By the defect: the results of the tests that must catch it. */
let states: Record<string, readonly string[]> = {};
beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-mutants-'));
  const report = join(folder, 'report.json');
  try {
    // Without the variables that this Vitest sets for its workers.
    const { VITEST: _, ...env } = process.env;
    await promisify(execFile)(process.execPath, [compiled(SUITE), ROOT, report], { cwd: ROOT, env });
    states = JSON.parse(await readFile(report, 'utf8'));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}, 300_000);

describe.each([
  ['the memory store', STORE_MUTANTS],
  ['the core', [...HOLD_MUTANTS, ...CALL_MUTANTS]],
] as const)('defects in %s', (_where, mutants) => {
  it('are at least ten, and each matches the source', () => {
    expect(mutants.length).toBeGreaterThanOrEqual(10);
    const symbols = symbolsIn(ROOT);
    for (const mutant of mutants) expect(() => mutated(symbols, mutant), mutant.mistake).not.toThrow();
  });

  it.each(mutants)('caught: $mistake', ({ mistake, test, by }) => {
    expect(states[mistake], `${test}: ${by}`).toContain('failed');
  });
});
