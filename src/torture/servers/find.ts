import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Where the program of a server comes from. */
export interface Program {
  /** The name of the server, for messages. */
  readonly title: string;
  readonly binary: string;
  /** Folders besides PATH where distributions put it. */
  readonly folders?: readonly string[];
  /** Debian and Ubuntu packages that contain it. */
  readonly packages: readonly string[];
  /** Its path, where it need not be looked for. */
  readonly path?: string | undefined;
}

/** Set to `1`, it allows this code to install missing servers, where it can. */
const INSTALL = 'HOLDFAST_INSTALL_SERVERS';

/**
 * The program's path: from PATH, else from its usual folders, else installed when that is allowed
 * and possible. Throws with what to do.
 */
export function findProgram(program: Program): string {
  if (program.path !== undefined) return program.path;
  const found = lookUp(program);
  if (found !== undefined) return found;
  const failure = install(program.packages);
  const installed = lookUp(program);
  if (installed !== undefined) return installed;
  const { title, binary, packages } = program;
  throw new Error(
    `${title} is needed and ${binary} was not found. ${failure ?? 'The packages do not contain it.'} ` +
      `Install it (Debian, Ubuntu: apt-get install ${packages.join(' ')}) so that ${binary} is on PATH.`,
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

/**
 * The reason why it could not install, or nothing when it did. Waits for another process that
 * installs at the same time.
 */
export function install(packages: readonly string[]): string | undefined {
  if (process.env[INSTALL] !== '1') return `With ${INSTALL}=1 it is installed where that is possible.`;
  if (process.getuid?.() !== 0) return 'It cannot be installed without being root.';
  if (!existsSync('/etc/debian_version') || !readFileSync('/etc/os-release', 'utf8').includes('debian')) {
    return 'It is installed by itself only on Debian and Ubuntu.';
  }
  const wait = ['-o', 'DPkg::Lock::Timeout=180', '-qq', '-y', '--no-install-recommends'];
  // Servers are started in folders of their own; the package must not start one.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  const run = (...args: string[]) => spawnSync('apt-get', args, { env, encoding: 'utf8', timeout: 300_000 });
  if (run(...wait, 'install', ...packages).status === 0) return undefined;
  run(...wait, 'update');
  const result = run(...wait, 'install', ...packages);
  return result.status === 0 ? undefined : `apt-get said: ${(result.stderr ?? '').trim().slice(-300)}`;
}
