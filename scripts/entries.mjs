// What users may import. `entries.json` is the list: the subpath, and its source file under src/
// without the ending. The build makes the files of each entry; `npm run entries` writes the maps of
// package.json.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'));

export const entries = read('./entries.json');

/**
 * Both conditions end at the same CommonJS files, so that a process has one instance of the code.
 * Bundlers know `module`, and take the ES modules: for `import` and `require()` alike, so that a
 * bundle has one instance too.
 */
const targetsOf = (file) => ({
  import: {
    types: `./dist/${file}.d.mts`,
    module: `./dist/esm/${file}.js`,
    default: `./dist/${file}.mjs`,
  },
  require: {
    types: `./dist/${file}.d.ts`,
    module: `./dist/esm/${file}.js`,
    default: `./dist/${file}.js`,
  },
});

export const exportsOf = (all) => ({
  ...Object.fromEntries(Object.entries(all).map(([subpath, file]) => [subpath, targetsOf(file)])),
  './package.json': './package.json',
});

/** For TypeScript's old resolution, which does not read `exports`. */
export const typesVersionsOf = (all) => ({
  '*': Object.fromEntries(
    Object.entries(all).flatMap(([subpath, file]) =>
      subpath === '.' ? [] : [[subpath.replace('./', ''), [`./dist/${file}.d.ts`]]],
    ),
  ),
});

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const path = new URL('../package.json', import.meta.url);
  const before = readFileSync(path, 'utf8');
  const maps = { exports: exportsOf(entries), typesVersions: typesVersionsOf(entries) };
  const after = `${JSON.stringify({ ...JSON.parse(before), ...maps }, null, 2)}\n`;
  if (!process.argv.includes('--check')) writeFileSync(path, after);
  else if (after !== before) {
    console.error('package.json is behind scripts/entries.json: npm run entries');
    process.exitCode = 1;
  }
}
