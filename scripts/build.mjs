// Compiles src/ to dist/, or to the folder that is given:
//   **/*.js, **/*.d.ts     CommonJS, which every runtime and test runner loads
//   <entry>.mjs, .d.mts    what `import` gets: the exports of the CommonJS file, by name
//   esm/**/*.js            ES modules, for bundlers alone
import { spawn } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { dashboardPage, PAGE_NAME } from './dashboard-page.mjs';
import { entries } from './entries.mjs';
import { NAME, threadProgram } from './thread-program.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = resolve(process.argv[2] ?? join(root, 'dist'));
// Inside the project, where the compiled entries find what they depend on.
const made = join(root, `.tmp/build-${process.pid}`);
const compiler = join(root, 'node_modules/typescript/bin/tsc');

function compile(project, outDir) {
  const args = [compiler, '-p', join(root, project), '--outDir', outDir];
  const child = spawn(process.execPath, args, { cwd: root, stdio: 'inherit' });
  return new Promise((done, fail) => {
    child.on('exit', (code) => (code === 0 ? done() : fail(new Error(`${project} does not compile`))));
  });
}

/** Taken from the compiled file, so that no name can be forgotten. */
function writeEntry(file) {
  const exported = Object.keys(createRequire(import.meta.url)(join(made, `${file}.js`))).sort();
  const from = `'./${basename(file)}.js'`;
  const names = exported.map((name) => `  ${name},\n`).join('');
  writeFileSync(join(made, `${file}.mjs`), `import all from ${from};\n\nexport const {\n${names}} = all;\n`);
  writeFileSync(join(made, `${file}.d.mts`), `export * from ${from};\n`);
}

/** Defines a constant at the beginning of a module, in both builds. */
function define(file, name, value) {
  for (const path of [join(made, file), join(made, 'esm', file)]) {
    writeFileSync(path, `const ${name} = ${JSON.stringify(value)};\n${readFileSync(path, 'utf8')}`);
  }
}

try {
  mkdirSync(join(made, 'esm'), { recursive: true });
  writeFileSync(join(made, 'package.json'), '{ "type": "commonjs" }\n');
  // No "type": in a package of "type": "module", webpack ignores require(), and would leave
  // installed clients out.
  writeFileSync(join(made, 'esm/package.json'), '{ "sideEffects": false }\n');
  await Promise.all([compile('tsconfig.build.json', made), compile('tsconfig.esm.json', join(made, 'esm'))]);
  // The renewal thread starts from a text, since a bundle has no file for it.
  define('thread/program-text.js', NAME, threadProgram());
  define('dashboard/page-text.js', PAGE_NAME, dashboardPage());
  for (const file of Object.values(entries)) writeEntry(file);
  chmodSync(join(made, 'cli/main.js'), 0o755);
  rmSync(dist, { recursive: true, force: true });
  cpSync(made, dist, { recursive: true });
} finally {
  rmSync(made, { recursive: true, force: true });
}
