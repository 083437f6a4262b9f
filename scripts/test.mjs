// `npm test`: everything that must be right, in the order in which a mistake is cheapest to read.
// Arguments go to Vitest.
import { spawn } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'holdfast-test-'));
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
];

/** Arguments choose files, and few files need no second Vitest. */
const RUNS =
  process.argv.length > 2
    ? [{ name: 'tests', args: process.argv.slice(2) }]
    : [
        { name: 'timed', args: ['--project=timed'] },
        { name: 'patient', args: ['--project=patient', '--maxWorkers=2'] },
      ];
const reportOf = (name) => join(scratch, `${name}.json`);

/** Resolves also when it fails: a step that fails does not hide what the later ones have to say. */
async function runStep({ name, args }, output = 'inherit') {
  const startedMs = performance.now();
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['inherit', output, output] });
  const status = await new Promise((resolve) => child.once('exit', resolve));
  return { name, passed: status === 0, seconds: (performance.now() - startedMs) / 1000 };
}

function runVitest({ name, args }, output) {
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${reportOf(name)}`];
  return runStep({ name, args: [join(modules, 'vitest/vitest.mjs'), 'run', ...reporters, ...args] }, output);
}

/**
 * The patient tests use what the timed ones leave of the processor: they start second, and at a low
 * priority, which every process that they start inherits. What they print comes at the end.
 */
async function runTests() {
  const [first, second] = RUNS;
  console.log(`\n── ${first.name}`);
  const running = [runVitest(first)];
  if (second !== undefined) {
    const path = join(scratch, `${second.name}.txt`);
    const output = openSync(path, 'w');
    setPriority(10);
    running.push(runVitest(second, output));
    closeSync(output);
    await Promise.all(running);
    console.log(`\n── ${second.name}\n${readFileSync(path, 'utf8')}`);
  }
  return await Promise.all(running);
}

/** A file that could not be loaded, or whose hooks failed, has no failed test; it counts as one. */
function countTests({ name }) {
  const report = reportOf(name);
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

const results = [];
for (const step of STEPS.filter(({ args: [file] }) => existsSync(file))) {
  console.log(`\n── ${step.name}`);
  results.push(await runStep(step));
}
const runs = await runTests();
results.push(...runs);
const counts = runs.map(countTests);
const sumOf = (key) => counts.reduce((sum, count) => sum + count[key], 0);
const [passed, skipped] = [sumOf('passed'), sumOf('skipped')];
// An error that no test caught, and a run without tests, must show in the count too.
const isSound = runs.every((run, n) => run.passed && counts[n].passed > 0);
const failed = Math.max(sumOf('failed'), isSound ? 0 : 1);
rmSync(scratch, { recursive: true, force: true });

console.log('\nstep       seconds');
for (const step of results) {
  const line = `${step.name.padEnd(9)} ${step.seconds.toFixed(1).padStart(8)}`;
  console.log(step.passed ? line : `${line}  FAILED`);
}
process.exitCode = results.every((step) => step.passed) && failed === 0 ? 0 : 1;
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
