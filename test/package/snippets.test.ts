import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SNIPPET_GLOBALS, type Snippet, snippetFile, snippetsOf } from '../support/snippets.ts';
import { compiler, makeScratch, repository, runNode, stagePackage } from '../support/staged-package.ts';
import { repositoryFiles } from '../support/tidy/file.ts';

const scratch = makeScratch();
afterAll(() => scratch[Symbol.dispose]());

const OPTIONS = {
  target: 'es2022',
  lib: ['es2023', 'esnext.disposable'],
  module: 'nodenext',
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: ['node'],
};

/** A project beside the staged package, with every client library that is installed here. */
beforeAll(() => {
  const modules = join(scratch.folder, 'node_modules');
  mkdirSync(join(modules, 'holdfast'), { recursive: true });
  stagePackage(join(modules, 'holdfast'));
  for (const name of readdirSync(join(repository, 'node_modules'))) {
    if (!name.startsWith('.')) symlinkSync(join(repository, 'node_modules', name), join(modules, name));
  }
  writeFileSync(join(scratch.folder, 'package.json'), '{ "type": "module" }');
});

function compile(folder: string, snippets: readonly Snippet[]): void {
  const path = join(scratch.folder, folder);
  mkdirSync(path);
  writeFileSync(join(path, 'globals.d.ts'), SNIPPET_GLOBALS);
  writeFileSync(join(path, 'tsconfig.json'), JSON.stringify({ compilerOptions: OPTIONS }));
  for (const { name, text } of snippets.map(snippetFile)) writeFileSync(join(path, name), text);
  runNode(path, [compiler('typescript'), '-p', '.', '--pretty', 'false']);
}

describe('examples in the documentation', () => {
  const pages = repositoryFiles().filter(({ path }) => path.endsWith('.md'));
  const sample = (code: string): Snippet[] =>
    snippetsOf({ path: 'a/b.md', text: `# B\n\n\`\`\`ts\n${code}\n\`\`\`\n` });

  it('compile', () => {
    compile('pages', pages.flatMap(snippetsOf));
  });

  it('are seen to fail where they are wrong, on the line of the page', () => {
    compile('right', sample('await locks.withLock("a", async (hold) => hold.extend(5));'));
    expect(() => compile('wrong', sample('import { redlock } from "holdfast";\n'))).toThrow(
      /a\+b\.md\.4\.ts\(4,10\)/,
    );
  });
});
