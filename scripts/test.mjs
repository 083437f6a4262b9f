// `npm test`: everything that must be right, in the order in which a mistake is cheapest to read.
// Arguments go to Vitest.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'holdfast-test-'));
const report = join(scratch, 'vitest.json');
const modules = join(root, 'node_modules');

const STEPS = [
  { name: 'embed', args: [join(root, 'scripts/embed.mjs'), '--check'] },
  { name: 'build', args: [join(root, 'scripts/build.mjs')] },
  // After the build, since benches and examples import the package by its name.
  { name: 'types', args: [join(modules, 'typescript/bin/tsc'), '-p', 'tsconfig.json'] },
  // Projects of their own, with the types of a browser.
  { name: 'page', args: [join(modules, 'typescript/bin/tsc'), '-p', 'src/dashboard/page'] },
  { name: 'browser', args: [join(modules, 'typescript/bin/tsc'), '-p', 'test/dashboard/browser'] },
  { name: 'lint', args: [join(modules, '@biomejs/biome/bin/biome'), 'check', '--error-on-warnings', '.'] },
  { name: 'servers', args: [join(root, 'scripts/install-servers.mjs')] },
  {
    name: 'tests',
    args: [
      join(modules, 'vitest/vitest.mjs'),
      'run',
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
      ...process.argv.slice(2),
    ],
  },
];

/** A step that fails does not hide what the later ones have to say. */
function runStep({ name, args }) {
  console.log(`\n── ${name}`);
  const startedMs = performance.now();
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
  return { name, passed: status === 0, seconds: (performance.now() - startedMs) / 1000 };
}

/** A file that could not be loaded, or whose hooks failed, has no failed test; it counts as one. */
function countTests() {
  if (!existsSync(report)) return { passed: 0, failed: 1, skipped: 0 };
  const result = JSON.parse(readFileSync(report, 'utf8'));
  const brokenFiles = result.testResults.filter(
    (file) => file.status === 'failed' && file.assertionResults.every((test) => test.status !== 'failed'),
  );
  return {
    passed: result.numPassedTests,
    failed: result.numFailedTests + brokenFiles.length,
    skipped: result.numPendingTests + result.numTodoTests,
  };
}

const results = STEPS.filter((step) => existsSync(step.args[0])).map(runStep);
const { passed, failed: failedTests, skipped } = countTests();
// An error that no test caught, and a run without tests, must show in the count too.
const failed = Math.max(failedTests, results.at(-1)?.passed === true && passed > 0 ? 0 : 1);
rmSync(scratch, { recursive: true, force: true });

console.log('\nstep    seconds');
for (const step of results) {
  const line = `${step.name.padEnd(6)} ${step.seconds.toFixed(1).padStart(8)}`;
  console.log(step.passed ? line : `${line}  FAILED`);
}
process.exitCode = results.every((step) => step.passed) && failed === 0 ? 0 : 1;
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
