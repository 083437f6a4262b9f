import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { installPackage } from '../support/package/installed-package.ts';
import {
  quotesOf,
  SNIPPET_GLOBALS,
  type Snippet,
  snippetFile,
  snippetsOf,
  wronglyQuoted,
} from '../support/package/snippets.ts';
import { compiler, makeScratch, repository, runNode } from '../support/package/staged-package.ts';
import { repositoryFiles } from '../support/tidy/file.ts';

// Compilers and package managers take seconds of processor time, and other test files run meanwhile.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const scratch = makeScratch();
afterAll(() => scratch[Symbol.dispose]());

/** An example with settings of its own: what pages quote of it is not compiled by itself. */
const NESTJS = 'examples/nestjs';

const OPTIONS = {
  target: 'es2022',
  lib: ['es2023', 'esnext.disposable'],
  module: 'nodenext',
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: ['node'],
};

/** A project with the package as it is installed, and with every client library that is installed here. */
beforeAll(() => {
  const modules = join(scratch.folder, 'node_modules');
  mkdirSync(modules);
  using installed = installPackage();
  cpSync(join(installed.project, 'node_modules/holdfast'), join(modules, 'holdfast'), { recursive: true });
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
  const files = repositoryFiles();
  const pages = files.filter(({ path }) => path.endsWith('.md'));
  const quotes = pages.flatMap(quotesOf);
  const sample = (code: string): Snippet[] =>
    snippetsOf({ path: 'a/b.md', text: `# B\n\n\`\`\`ts\n${code}\n\`\`\`\n` });

  it('compile', () => {
    const ofNestjs = new Set(
      quotes.filter(({ example }) => example.startsWith(NESTJS)).map(({ page, line }) => `${page}:${line}`),
    );
    const snippets = pages.flatMap(snippetsOf).filter(({ page, line }) => !ofNestjs.has(`${page}:${line}`));
    compile('pages', snippets);
  });

  it('compile with the settings of their own: examples/nestjs', () => {
    const path = join(scratch.folder, 'nestjs');
    cpSync(join(repository, NESTJS), path, { recursive: true });
    runNode(path, [compiler('typescript5'), '-p', '.', '--pretty', 'false']);
  });

  it('consist of lines of the program that they name', () => {
    expect(quotes.length).toBeGreaterThan(15);
    const wrong = quotes.flatMap(({ page, line, example, code }) => {
      const text = files.find(({ path }) => path === example)?.text ?? '';
      return wronglyQuoted(code, text).map((each) => `${page}:${line}: ${example} has no "${each}"`);
    });
    expect(wrong).toEqual([]);
  });

  it('are wrong where they have another line, or the lines in another order', () => {
    const example = 'a();\n\nif (x) {\n  b();\n}\nc();\n';
    expect(wronglyQuoted('a();\n\nb();\nc();\n', example)).toEqual([]);
    expect(wronglyQuoted('a();\nd();\nc();\n', example)).toEqual(['d();']);
    expect(wronglyQuoted('c();\na();\n', example)).toEqual(['a();']);
  });

  it('fail to compile where they are wrong, with the line of the page', () => {
    compile('right', sample('await locks.withLock("a", async (hold) => hold.extend(5));'));
    expect(() => compile('wrong', sample('import { redlock } from "holdfast";\n'))).toThrow(
      /a\+b\.md\.4\.ts\(4,10\)/,
    );
  });
});
