import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { installPackage } from '../support/package/installed-package.ts';
import { repository, startNode } from '../support/package/staged-package.ts';

const installed = installPackage();
afterAll(() => installed[Symbol.dispose]());
const modules = join(repository, 'node_modules');
/** Test runners compile and start slowly while other test files run at the same time. */
const LIMIT_MS = 180_000;

/** Stays away, to be missed. */
const MISSING = 'node-zookeeper-client';
/** A user of ts-jest has a compiler that it can call. */
const INSTEAD: Readonly<Record<string, string>> = { typescript: 'typescript5' };

/** The package, with the libraries and test runners that are installed here. */
function makeModules(): string {
  const folder = join(installed.project, 'runners');
  const holdfast = 'node_modules/holdfast';
  cpSync(join(installed.project, holdfast), join(folder, holdfast), { recursive: true });
  for (const each of readdirSync(modules)) {
    const target = join(folder, 'node_modules', each);
    // Copied, so that it finds the compiler of this project.
    if (each === 'ts-jest') cpSync(join(modules, each), target, { recursive: true });
    else if (!each.startsWith('.') && each !== MISSING && each !== 'holdfast')
      symlinkSync(join(modules, INSTEAD[each] ?? each), target);
  }
  return folder;
}
const runners = makeModules();

function makeProject(name: string, files: Readonly<Record<string, string>>): string {
  const project = join(runners, name);
  mkdirSync(project);
  for (const [path, text] of Object.entries(files)) writeFileSync(join(project, path), text);
  return project;
}

/**
 * The same in every language and runner. Errors are compared by class, so two instances would fail.
 */
const BODY = `
  const clock = virtualClock();
  const store = memoryStore({ clock });
  const locks = createLocks(store, { clock });
  const hold = await locks.mutex('a').acquire();
  await expect(locks.mutex('a').acquire({ waitMs: 0 })).rejects.toBeInstanceOf(AcquireTimeoutError);
  expect(await locks.mutex('b').run((own) => typeof own.fence, { reentrant: true })).toBe('bigint');
  expect(await hold.release()).toBe(true);
  await locks.close();
  const file = await openLocks('sqlite::memory:');
  expect(await file.withLock('a', () => 'held')).toBe('held');
  await file.close();
  // The client is loaded, and nothing is connected.
  await (await openLocks('redis://127.0.0.1:1', { connect: false })).close();
  await expect(openLocks('zookeeper://x')).rejects.toThrow('npm install ${MISSING}');
`;
const NAMES = 'AcquireTimeoutError, createLocks, memoryStore, openLocks';
const REQUIRED = `
const { ${NAMES} } = require('holdfast');
const { virtualClock } = require('holdfast/testing');
test('locks', async () => {${BODY}});
`;
const IMPORTED = `
import { ${NAMES} } from 'holdfast';
import { virtualClock } from 'holdfast/testing';
test('locks', async () => {${BODY}});
`;

const strict = { strict: true, target: 'es2022', types: [], skipLibCheck: true };
const TEST_GLOBALS =
  'declare const test: (name: string, fn: () => Promise<void>) => void; declare const expect: any;\n';
const tsconfig = (options: object): string => JSON.stringify({ compilerOptions: { ...strict, ...options } });

it.concurrent.each(['jest29', 'jest'])(
  '%s: JavaScript that calls require()',
  async (jest) => {
    const project = makeProject(jest, { 'a.test.js': REQUIRED, 'package.json': '{}' });
    await startNode(project, [join(modules, jest, 'bin/jest.js'), '--runInBand', '--no-cache']);
  },
  LIMIT_MS,
);

it.concurrent.each([
  { jest: 'jest29', options: { module: 'commonjs', moduleResolution: 'node10' } },
  { jest: 'jest', options: { module: 'node16' } },
])(
  '$jest with ts-jest: TypeScript, under $options',
  async ({ jest, options }) => {
    const project = makeProject(`${jest}-ts`, {
      'a.test.ts': TEST_GLOBALS + IMPORTED,
      'package.json': JSON.stringify({ jest: { preset: 'ts-jest' } }),
      'tsconfig.json': tsconfig(options),
    });
    await startNode(project, [join(modules, jest, 'bin/jest.js'), '--runInBand', '--no-cache']);
  },
  LIMIT_MS,
);

it(
  'vitest: modules, and one instance beside require()',
  async () => {
    const project = makeProject('vitest', {
      'a.test.mjs': `import { createRequire } from 'node:module';
import { expect, test } from 'vitest';
${IMPORTED}
test('one instance', async () => {
  const { AcquireTimeoutError: Required } = createRequire(import.meta.url)('holdfast');
  expect(Required).toBe(AcquireTimeoutError);
});`,
      'package.json': '{}',
    });
    await startNode(project, [join(modules, 'vitest/vitest.mjs'), 'run', '--maxWorkers=1']);
  },
  LIMIT_MS,
);

it(
  'is seen to fail: a test that must not pass',
  async () => {
    const text = REQUIRED.replace(`npm install ${MISSING}`, 'npm install nothing');
    const project = makeProject('fails', { 'a.test.js': text, 'package.json': '{}' });
    const run = startNode(project, [join(modules, 'jest/bin/jest.js'), '--runInBand', '--no-cache']);
    await expect(run).rejects.toThrow(`npm install ${MISSING}`);
  },
  LIMIT_MS,
);
