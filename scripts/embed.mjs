// Embeds the Lua and SQL files of the stores into TypeScript, so that the package reads no files
// when it runs. `node scripts/embed.mjs` writes src/generated; with --check it fails when that is
// stale.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = join(root, 'src/generated');

// Each kind of file: which folder of a store it lies in, what one of them becomes and all of them
// together, and whether every file is one.
const KINDS = [
  {
    folder: 'scripts',
    extension: '.lua',
    comment: '--',
    render: renderScript,
    join: (parts) => parts.join('\n'),
    isWhole: isLuaScript,
  },
  {
    folder: 'migrations',
    extension: '.sql',
    comment: '--',
    render: renderMigration,
    join: (parts) => `export const migrations = [\n${parts.join('')}] as const;\n`,
    isWhole: () => true,
  },
];

const camel = (name) => name.replace(/[-_.](\w)/g, (_, letter) => letter.toUpperCase());
// One line each, because they are not meant to be read here.
const quote = (text) => JSON.stringify(text);

function renderScript(name, text) {
  const sha = createHash('sha1').update(text).digest('hex');
  return `export const ${camel(name)}Script = {\n  sha: '${sha}',\n  text: ${quote(text)},\n} as const;\n`;
}

// In the order of their numbers: `0001-leases.sql` is migration 1.
function renderMigration(name, text) {
  const id = Number.parseInt(name, 10);
  return `  {\n    id: ${id},\n    name: '${name}',\n    text: ${quote(text)},\n  },\n`;
}

// A file without a reply is only a part that others include.
function isLuaScript(text) {
  return /^return /m.test(text);
}

function expand(path, comment) {
  return readFileSync(path, 'utf8').replace(new RegExp(`^${comment} @include (\\S+)\n`, 'gm'), (_, part) =>
    expand(join(path, '..', part), comment),
  );
}

/** Comments and indents are for the reader of the file; the server need not see them. */
function shrink(text) {
  const lines = text.split('\n').map((line) => line.trim());
  return `${lines.filter((line) => line !== '' && !line.startsWith('--')).join('\n')}\n`;
}

// `NAME = value` at the beginning of a line defines a constant. Its value is written wherever the
// name stands.
const CONSTANT = /^([A-Z][A-Z_]*) = (.+)\n/gm;

function substitute(text) {
  const values = new Map();
  const withValues = (code) => code.replace(/[A-Z][A-Z_]*/g, (name) => values.get(name) ?? name);
  for (const [, name, value] of text.matchAll(CONSTANT)) values.set(name, withValues(value));
  return withValues(text.replace(CONSTANT, ''));
}

function generate(store, kind) {
  const folder = join(root, 'src/stores', store, kind.folder);
  if (!existsSync(folder)) return undefined;
  const files = readdirSync(folder).filter((file) => file.endsWith(kind.extension));
  const parts = files.sort().flatMap((file) => {
    const path = join(folder, file);
    if (!kind.isWhole(readFileSync(path, 'utf8'))) return [];
    const text = expand(path, kind.comment);
    const name = file.slice(0, -kind.extension.length);
    return [kind.render(name, kind.extension === '.lua' ? substitute(shrink(text)) : text)];
  });
  const note = `// Made by scripts/embed.mjs from src/stores/${store}/${kind.folder}. Do not edit.\n`;
  return { path: join(out, `${store}-${kind.folder}.ts`), text: `${note}\n${kind.join(parts)}` };
}

const check = process.argv.includes('--check');
let stale = 0;
mkdirSync(out, { recursive: true });
for (const store of readdirSync(join(root, 'src/stores'))) {
  for (const kind of KINDS) {
    const file = generate(store, kind);
    if (file === undefined) continue;
    const before = existsSync(file.path) ? readFileSync(file.path, 'utf8') : '';
    if (before === file.text) continue;
    stale += 1;
    if (check) console.error(`${file.path} is stale: run node scripts/embed.mjs`);
    else writeFileSync(file.path, file.text);
  }
}
process.exitCode = check && stale > 0 ? 1 : 0;
