import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Later versions of Node.js, for their own SQLite. Kept in the temporary folder from run to run. */
export async function nodeBinary(major: number): Promise<string> {
  const folder = join(tmpdir(), 'holdfast-test-nodes', String(major));
  const binary = join(folder, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin', 'node');
  if (existsSync(binary)) return binary;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "private": true }');
  const wanted = `node-${process.platform}-${process.arch}@${major}`;
  try {
    const args = ['install', '--no-audit', '--no-fund', '--prefix', folder, wanted];
    await promisify(execFile)('npm', args, { timeout: 300_000 });
  } catch (error) {
    const detail = String((error as { stderr?: string }).stderr ?? error);
    throw new Error(
      `Node.js ${major} is needed for this test and could not be installed (npm install ${wanted}): ${detail}`,
    );
  }
  return binary;
}
