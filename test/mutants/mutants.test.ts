import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { CALL_MUTANTS } from './call-mutants.ts';
import { HOLD_MUTANTS } from './hold-mutants.ts';
import type { Mutant } from './mutant.ts';
import { STORE_MUTANTS } from './store-mutants.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const run = promisify(execFile);

/** How many tests fail with this mistake in the source. */
async function failuresWith(mutant: Mutant): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-mutant-'));
  const report = join(folder, 'report.json');
  const args = [
    'run',
    ...mutant.tests,
    '--bail=1',
    '--testTimeout=8000',
    '--reporter=json',
    `--outputFile=${report}`,
  ];
  const env = { ...process.env, HOLDFAST_MUTANT: mutant.mistake, HOLDFAST_INTERLEAVINGS: '3000' };
  try {
    await run(process.execPath, [join(ROOT, 'node_modules/vitest/vitest.mjs'), ...args], {
      cwd: ROOT,
      env,
      timeout: 100_000,
    }).catch(() => {});
    const { numFailedTests, numTotalTests } = JSON.parse(await readFile(report, 'utf8')) as Record<
      string,
      number
    >;
    expect(numTotalTests, 'the mutant loads and its tests run').toBeGreaterThan(0);
    return numFailedTests ?? 0;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

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

  it.concurrent.each(mutants)('caught: $mistake', { timeout: 120_000 }, async (mutant) => {
    expect(await failuresWith(mutant)).toBeGreaterThan(0);
  });
});
