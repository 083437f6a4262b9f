import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Later versions of Node.js, for their own SQLite. Kept in the temporary folder from run to run. */
export function nodeBinary(major: number): string {
  const folder = join(tmpdir(), 'holdfast-test-nodes', String(major));
  const binary = join(folder, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin', 'node');
  if (existsSync(binary)) return binary;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "private": true }');
  const wanted = `node-${process.platform}-${process.arch}@${major}`;
  try {
    execFileSync('npm', ['install', '--no-audit', '--no-fund', '--prefix', folder, wanted], {
      stdio: 'pipe',
      timeout: 110_000,
    });
  } catch (error) {
    const detail = String((error as { stderr?: Buffer }).stderr ?? error);
    throw new Error(
      `Node.js ${major} is needed for this test and could not be installed (npm install ${wanted}): ${detail}`,
    );
  }
  return binary;
}
