// `npm run bench [-- NAME]`: builds, then runs bench/NAME/run.ts, or every one of them, one after the other.
// `npm run bench -- --write`: only the performance bench, which writes docs/performance.md.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

process.env.HOLDFAST_INSTALL_SERVERS ??= '1';
const root = fileURLToPath(new URL('..', import.meta.url));
const args = process.argv.slice(2);
const [wanted, ...rest] = args[0]?.startsWith('--') ? ['performance', ...args] : args;

function runNode(args) {
  return spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' }).status === 0;
}

function benchNames() {
  const folder = join(root, 'bench');
  const names = existsSync(folder) ? readdirSync(folder) : [];
  return names.filter((name) => existsSync(join(folder, name, 'run.ts'))).sort();
}

const all = benchNames();
const chosen = wanted === undefined ? all : all.filter((name) => name === wanted);
if (chosen.length === 0) {
  console.error(`No such bench. There is: ${all.join(', ') || 'none'}`);
  process.exit(1);
}
// Benches import the package by its name, as users do.
if (!runNode([join(root, 'scripts/build.mjs')])) process.exit(1);

const failed = chosen.filter((name) => {
  console.log(`\n── bench ${name}`);
  // The heap is measured after a garbage collection.
  return !runNode(['--expose-gc', '--import', 'tsx', join('bench', name, 'run.ts'), ...rest]);
});
if (failed.length > 0) console.error(`\nFailed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;
