import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it, vi } from 'vitest';
import { nodeBinary } from '../sqlite/support/nodes.ts';
import { runtimes } from '../sqlite/support/runtimes.ts';
import { installPackage } from '../support/package/installed-package.ts';
import { repository } from '../support/package/staged-package.ts';

// Compilers and package managers take seconds of processor time, and other test files run meanwhile.
vi.setConfig({ testTimeout: 240_000 });

const installed = installPackage();
afterAll(() => installed[Symbol.dispose]());

/** With one client library installed, and another missing. */
const PROGRAM = `
import { createRequire } from 'node:module';
import { AcquireTimeoutError, createLocks, memoryStore, openLocks } from 'holdfast';
import 'holdfast/redis';
const locks = createLocks(memoryStore());
const kind = await locks.withLock('a', (hold) => typeof hold.fence);
await locks.close();
const isSame = createRequire(import.meta.url)('holdfast').AcquireTimeoutError === AcquireTimeoutError;
await (await openLocks('redis://127.0.0.1:1', { connect: false })).close();
const missing = await openLocks('zookeeper://x').catch((error) => error.code + ' ' + error.message);
console.log(JSON.stringify([kind, isSame, missing]));
process.exit();
`;

function makeProject(): string {
  const project = join(installed.project, 'runtimes');
  const modules = join(project, 'node_modules');
  mkdirSync(modules, { recursive: true });
  cpSync(join(installed.project, 'node_modules/holdfast'), join(modules, 'holdfast'), { recursive: true });
  symlinkSync(join(repository, 'node_modules/ioredis'), join(modules, 'ioredis'));
  // Deno looks for packages that the project names.
  writeFileSync(join(project, 'package.json'), JSON.stringify({ dependencies: { holdfast: '*' } }));
  writeFileSync(join(project, 'main.mjs'), PROGRAM);
  return project;
}

const project = makeProject();
const [bun, deno] = runtimes();

it.each([
  ['Bun', async () => [bun?.binary ?? '', ...(bun?.args ?? [])]],
  ['Deno', async () => [deno?.binary ?? '', ...(deno?.args ?? []), '--node-modules-dir=manual']],
  ['Node.js 24, which can require a module', async () => [await nodeBinary(24)]],
])('%s: one instance for import and require(), clients are found and missed', async (_, command) => {
  const [binary = '', ...args] = await command();
  const output = execFileSync(binary, [...args, 'main.mjs'], { cwd: project, encoding: 'utf8' });
  expect(JSON.parse(output)).toEqual([
    'bigint',
    true,
    'UNSUPPORTED ZooKeeper needs a client library: npm install node-zookeeper-client',
  ]);
});
