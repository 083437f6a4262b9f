import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runtimes } from '../../sqlite/support/runtimes.ts';
import { installPackage } from '../package/installed-package.ts';
import { repository } from '../package/staged-package.ts';
import { bundleWithPackages } from '../process/compile.ts';

/** What runs the smoke suite. */
export interface MatrixRuntime {
  readonly name: string;
  readonly command: readonly [binary: string, ...args: string[]];
}

/** One run of the smoke suite. */
export interface Cell {
  readonly runtime: MatrixRuntime;
  readonly library: string;
  readonly url: string;
}

/** `yes`; `no` when the store refuses; `fails` when it accepts and does not work. */
export interface Outcome {
  readonly verdict: 'yes' | 'no' | 'fails';
  readonly detail: string;
}

/** A project with the packed package and the client libraries of this repository. */
export interface MatrixProject extends Disposable {
  run(cell: Cell): Promise<Outcome>;
}

/** The package that each library comes from. SQLite has one of its own from Node.js 22 on. */
export const PACKAGES: Readonly<Record<string, string>> = {
  'ioredis 5': 'ioredis5',
  'ioredis 6': 'ioredis',
  'node-redis 5': 'redis5',
  'node-redis 6': 'redis',
  'pg, leases': 'pg',
  'pg, advisory': 'pg',
  'postgres.js, leases': 'postgres',
  'postgres.js, advisory': 'postgres',
  mysql2: 'mysql2',
  etcd3: 'etcd3',
  'node-zookeeper-client': 'node-zookeeper-client',
  'node:sqlite, libsql': 'libsql',
};

/**
 * Advisory locks neither count nor remember, and ZooKeeper remembers nothing after a session:
 * semaphores and `once` are refused there.
 */
const UNSUPPORTED: Readonly<Record<string, readonly string[]>> = {
  'pg, advisory': ['semaphore', 'once'],
  'postgres.js, advisory': ['semaphore', 'once'],
  'node-zookeeper-client': ['once'],
};

/** Long enough for a machine that is busy with other things; a hanging process has to end some time. */
const RUN_MS = 120_000;

/** `more`: folders of packages that are not dependencies of this repository. */
export function makeMatrixProject(more: Readonly<Record<string, string>> = {}): MatrixProject {
  const installed = installPackage();
  const project = join(installed.project, 'matrix');
  const modules = join(project, 'node_modules');
  mkdirSync(modules, { recursive: true });
  cpSync(join(installed.project, 'node_modules/holdfast'), join(modules, 'holdfast'), { recursive: true });
  const own = [...new Set(Object.values(PACKAGES))].map(
    (name) => [name, join(repository, 'node_modules', name)] as const,
  );
  for (const [name, folder] of [...own, ...Object.entries(more)]) {
    if (!existsSync(folder)) throw new Error(`${name} is not installed`);
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(folder, join(modules, name));
  }
  // Deno looks for packages that the project names.
  const names = ['holdfast', ...own.map(([name]) => name)];
  const dependencies = Object.fromEntries(names.map((name) => [name, '*']));
  writeFileSync(join(project, 'package.json'), JSON.stringify({ type: 'module', dependencies }));
  bundleWithPackages(fileURLToPath(new URL('smoke.ts', import.meta.url)), join(project, 'smoke.mjs'));
  let count = 0;
  return {
    run: (cell) => runCell(cell, project, `matrix-${process.pid}-${count++}`),
    [Symbol.dispose]: () => installed[Symbol.dispose](),
  };
}

async function runCell({ runtime, library, url }: Cell, cwd: string, prefix: string): Promise<Outcome> {
  const [binary, ...args] = runtime.command;
  const child = spawn(binary, [...args, 'smoke.mjs', library, url, prefix], { cwd, stdio: 'pipe' });
  let [said, complained, isLate] = ['', '', false];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complained += text;
  });
  const timer = setTimeout(() => {
    isLate = true;
    child.kill('SIGKILL');
  }, RUN_MS);
  const code = await new Promise<number | null>((resolve) => {
    child.once('error', (error) => {
      complained += error.message;
      resolve(null);
    });
    child.once('close', resolve);
  });
  clearTimeout(timer);
  if (isLate && said !== '') return { verdict: 'fails', detail: 'the process did not end after close' };
  if (isLate) return { verdict: 'fails', detail: `no result within ${RUN_MS} ms ${complained}` };
  return judge(library, code, said, complained);
}

interface Report {
  readonly refused?: string;
  readonly checks?: Readonly<Record<string, string>>;
}

/** Reads what the smoke suite printed. Exported for its test. */
export function judge(library: string, code: number | null, said: string, complained: string): Outcome {
  if (code !== 0 || said === '') return { verdict: 'fails', detail: `exit ${code}: ${complained}`.trim() };
  const { refused, checks = {} } = JSON.parse(said) as Report;
  if (refused !== undefined) return { verdict: 'no', detail: refused };
  const unsupported = UNSUPPORTED[library] ?? [];
  const bad = Object.entries(checks).filter(
    ([name, outcome]) => outcome !== (unsupported.includes(name) ? 'unsupported' : 'ok'),
  );
  if (Object.keys(checks).length === 0) return { verdict: 'fails', detail: 'nothing was checked' };
  if (bad.length === 0) return { verdict: 'yes', detail: '' };
  return { verdict: 'fails', detail: bad.map(([name, outcome]) => `${name}: ${outcome}`).join('; ') };
}

/** What runs this program, Bun and Deno: all that needs no download. */
export function installedRuntimes(): readonly MatrixRuntime[] {
  const others = runtimes().map(({ name, binary, args }): MatrixRuntime => {
    const more = name === 'Deno' ? ['--node-modules-dir=manual'] : [];
    return { name, command: [binary, ...args, ...more] };
  });
  const major = Number.parseInt(process.versions.node, 10);
  return [{ name: `Node.js ${major}`, command: [process.execPath] }, ...others];
}

/** The version of a package that is installed here. */
export function versionOf(name: string): string {
  const path = join(repository, 'node_modules', name, 'package.json');
  return (JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version;
}
