import { execFile, execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const repository = fileURLToPath(new URL('../../..', import.meta.url));

/** A temporary folder outside the repository, removed with its last use. */
export interface Scratch extends Disposable {
  readonly folder: string;
}

export function makeScratch(): Scratch {
  // The real path: on some systems the temporary folder is a link, and compilers print where it
  // leads.
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'holdfast-')));
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
}

/**
 * Runs a program of Node.js and returns what it printed; throws with both outputs when it fails.
 */
export function runNode(cwd: string, args: readonly string[]): string {
  try {
    return execFileSync(process.execPath, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`node ${args.join(' ')} failed\n${stdout}${stderr}`);
  }
}

/** The same while other work runs. */
export function startNode(
  cwd: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { cwd, encoding: 'utf8', env: { ...process.env, ...env } } as const;
    execFile(process.execPath, args, options, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`node ${args.join(' ')} failed\n${stdout}${stderr}`));
    });
  });
}

/** The newest, the last one before it, and the oldest that is supported. */
export type Compiler = 'typescript' | 'typescript5' | 'typescript52';

export const compiler = (name: Compiler): string => join(repository, 'node_modules', name, 'bin/tsc');

/**
 * Puts the package as it is published into `folder`, compiled from the sources as they are now: the
 * tests that read it can neither see a stale build nor disturb one.
 */
export function stagePackage(folder: string): void {
  runNode(repository, ['scripts/build.mjs', join(folder, 'dist')]);
  for (const name of readdirSync(repository)) {
    const isNamed = ['docs', 'package.json', 'LICENSE', 'THIRD-PARTY-NOTICES.txt'].includes(name);
    if (isNamed || name.endsWith('.md'))
      cpSync(join(repository, name), join(folder, name), { recursive: true });
  }
}
