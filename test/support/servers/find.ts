import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Where a server's program comes from. */
export interface Program {
  /** As people call it, for messages. */
  readonly title: string;
  readonly binary: string;
  /** Folders besides PATH where distributions put it. */
  readonly folders?: readonly string[];
  /** Debian and Ubuntu packages that bring it. */
  readonly packages: readonly string[];
}

/** The program's path: from PATH, else from its usual folders, else installed when that is possible here. Throws with what to do. */
export function findProgram(program: Program): string {
  const found = lookUp(program);
  if (found !== undefined) return found;
  const failure = install(program.packages);
  const installed = lookUp(program);
  if (installed !== undefined) return installed;
  throw new Error(
    `${program.title} is needed and ${program.binary} was not found. ${failure ?? 'The packages did not bring it.'} ` +
      `Install it (Debian, Ubuntu: apt-get install ${program.packages.join(' ')}) so that ${program.binary} is on PATH.`,
  );
}

function lookUp(program: Program): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...(program.folders ?? [])];
  return folders.map((folder) => join(folder, program.binary)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Says why it could not install, or nothing when it did. Waits for another test process that installs at the same time. */
export function install(packages: readonly string[]): string | undefined {
  if (process.getuid?.() !== 0) return 'It cannot be installed without being root.';
  if (!existsSync('/etc/debian_version') || !readFileSync('/etc/os-release', 'utf8').includes('debian')) {
    return 'It is installed by itself only on Debian and Ubuntu.';
  }
  const wait = ['-o', 'DPkg::Lock::Timeout=180', '-qq', '-y', '--no-install-recommends'];
  // Servers are started by the tests, each in its own folder; the package must not start one of its own.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  const run = (...args: string[]) => spawnSync('apt-get', args, { env, encoding: 'utf8', timeout: 300_000 });
  if (run(...wait, 'install', ...packages).status === 0) return undefined;
  run(...wait, 'update');
  const result = run(...wait, 'install', ...packages);
  return result.status === 0 ? undefined : `apt-get said: ${(result.stderr ?? '').trim().slice(-300)}`;
}
