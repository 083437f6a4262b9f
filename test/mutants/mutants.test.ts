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

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SUITE = fileURLToPath(new URL('./suite.ts', import.meta.url));

/** By the mistake: what has become of the tests that must notice it. */
let states: Record<string, readonly string[]> = {};
beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-mutants-'));
  const report = join(folder, 'report.json');
  try {
    // Not as a part of this run: what Vitest has told its workers is not for another Vitest.
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
] as const)('mistakes in %s', (_where, mutants) => {
  it('are at least ten, each in a place that exists', async () => {
    expect(mutants.length).toBeGreaterThanOrEqual(10);
    for (const { file, find, mistake } of mutants) {
      const source = await readFile(join(ROOT, file), 'utf8');
      expect(source.split(find).length - 1, `${file}: ${mistake}`).toBe(1);
    }
  });

  it.each(mutants)('caught: $mistake', ({ mistake, test, by }) => {
    expect(states[mistake], `${test}: ${by}`).toContain('failed');
  });
});
