import { existsSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);

/** A runtime other than Node.js, and the arguments that make it run a program with all permissions. */
export interface Runtime {
  readonly name: string;
  readonly binary: string;
  readonly args: readonly string[];
}

const musl = (): boolean =>
  !('glibcVersionRuntime' in (process.report.getReport() as { header: object }).header);

/** The binaries are optional dependencies of `bun` and `deno`. Throws when one was not installed. */
export function runtimes(): readonly Runtime[] {
  const { platform, arch } = process;
  const suffix = platform === 'linux' && musl() ? '-musl' : '';
  const bun = `@oven/bun-${platform}-${arch === 'arm64' ? 'aarch64' : arch}${suffix}`;
  const deno = `@deno/${platform}-${arch}${platform === 'linux' ? '-glibc' : ''}`;
  return [
    { name: 'Bun', binary: binaryOf('bun', bun, 'bin/bun', 'bin/bun.exe'), args: [] },
    { name: 'Deno', binary: binaryOf('deno', deno, 'deno'), args: ['run', '--allow-all'] },
  ];
}

/** An install script, where npm runs it, moves the binary into the runtime's own package as `moved`. */
function binaryOf(runtime: string, packageName: string, file: string, moved?: string): string {
  const own = require.resolve(`${runtime}/package.json`);
  const folder = dirname(require.resolve(`${packageName}/package.json`, { paths: [own] }));
  const candidates = [join(folder, file), ...(moved === undefined ? [] : [join(dirname(own), moved)])];
  const binary = candidates.find((path) => existsSync(path) && statSync(path).size > BINARY_BYTES_MIN);
  if (binary === undefined) throw new Error(`${packageName} is installed without ${file}`);
  return binary;
}

/** A placeholder for the binary is a script of some hundred bytes. */
const BINARY_BYTES_MIN = 1_000_000;
