import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, describe, expect, it } from 'vitest';
import { bundle } from '../support/bundle.ts';
import { installPackage } from '../support/installed-package.ts';
import { manifest, publicEntries } from '../support/public-entries.ts';
import { repository, runNode } from '../support/staged-package.ts';
import { links } from '../support/tidy/text-checks.ts';
import { compileProject, SETTINGS, type UserProject } from '../support/user-project.ts';

const CORE_BYTES_MAX = 12_000;
/** Needed by the command line only. One more is a decision. */
const BROUGHT_ALONG = ['commander'];
/** Their declarations mention a `Buffer`, as those of their client library do. All others compile in a project that has no @types/node. */
const NEED_NODE_TYPES = new Set(['holdfast/etcd', 'holdfast/zookeeper']);

const installed = installPackage();
afterAll(() => installed[Symbol.dispose]());
const entries = publicEntries();
const specifiers = entries.map((entry) => entry.specifier);

describe('the packed package', () => {
  it('contains what it names, and nothing of the workshop', () => {
    const { bin = {} } = manifest();
    const named = entries.flatMap(({ built }) => [`${built}.js`, `${built}.d.ts`]);
    const programs = Object.values(bin).map((path) => path.replace('./', ''));
    const needed = [...named, ...programs, 'LICENSE', 'CHANGELOG.md'];
    expect(needed.filter((path) => !installed.files.includes(path))).toEqual([]);
    const known =
      /^(?:dist\/.*\.(?:js|d\.ts)|package\.json|LICENSE|(?:README|CHANGELOG|CONTRIBUTING|SECURITY)\.md|docs\/(?:stores\/)?[\w-]+\.md)$/;
    expect(installed.files.filter((path) => !known.test(path))).toEqual([]);
  });

  it('has no dead link on the pages for its users, but for the tests that the page on safety names', () => {
    const textOf = (path: string): string | undefined =>
      installed.files.includes(path)
        ? readFileSync(join(installed.project, 'node_modules/holdfast', path), 'utf8')
        : undefined;
    const pages = installed.files.filter((path) => path === 'README.md' || path.startsWith('docs/'));
    expect(pages).toEqual(expect.arrayContaining(['README.md', 'docs/guide.md', 'docs/stores/etcd.md']));
    const dead = pages.flatMap((path) => links(textOf).find({ path, text: textOf(path) ?? '' }));
    expect(dead.filter((problem) => !/^docs\/safety\.md:\d+: \.\.\/test\//.test(problem))).toEqual([]);
  });

  it('says the same to old and new resolution', () => {
    const { exports, main, types, typesVersions } = manifest();
    expect(exports['.']).toEqual({ types, default: main });
    for (const { subpath, built } of entries) {
      const target = { types: `./${built}.d.ts`, default: `./${built}.js` };
      expect(exports[subpath === '' ? '.' : `./${subpath}`]).toEqual(target);
      if (subpath !== '') expect(typesVersions['*'][subpath]).toEqual([target.types]);
    }
    const subpaths = entries.flatMap(({ subpath }) => (subpath === '' ? [] : [subpath]));
    expect(Object.keys(typesVersions['*']).sort()).toEqual(subpaths.sort());
  });

  it('is clean to publint', async () => {
    const pkgDir = join(installed.project, 'node_modules/holdfast');
    const { messages, pkg } = await publint({ pkgDir, strict: true, pack: false });
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
  });

  it('is clean to arethetypeswrong, as a package of modules', () => {
    const attw = join(repository, 'node_modules/@arethetypeswrong/cli/dist/index.js');
    const output = runNode(installed.project, [attw, installed.tarball, '--profile', 'esm-only']);
    for (const specifier of specifiers) expect(output).toContain(`"${specifier}"`);
  });
});

describe('the installed package', () => {
  const use = `
    const locks = holdfast.createLocks(holdfast.memoryStore());
    locks.withLock('a', (hold) => typeof hold.fence).then(async (kind) => {
      await locks.close();
      console.log(JSON.stringify({ kind, entries: all.filter((each) => Object.keys(each).length > 0).length }));
    });`;
  const expected = `${JSON.stringify({ kind: 'bigint', entries: entries.length })}\n`;

  it('works with import', () => {
    const program = `
      import * as holdfast from 'holdfast';
      const all = await Promise.all(${JSON.stringify(specifiers)}.map((each) => import(each)));${use}`;
    expect(runNode(installed.project, ['--input-type=module', '-e', program])).toBe(expected);
  });

  it('works with require(), without a warning, and both get the same copy', () => {
    const program = `
      process.on('warning', (warning) => console.log(String(warning)));
      const all = ${JSON.stringify(specifiers)}.map((each) => require(each));
      const holdfast = require('holdfast');
      import('holdfast').then((imported) => {
        if (imported.HoldfastError !== holdfast.HoldfastError) throw new Error('two copies');
      });${use}`;
    expect(runNode(installed.project, ['--input-type=commonjs', '-e', program])).toBe(expected);
  });

  it('loads nothing but Node.js, whatever entry is asked for', async () => {
    for (const specifier of specifiers) {
      const { externals } = await bundle(installed.project, `export * from '${specifier}';`);
      expect(
        externals.filter((name) => !name.startsWith('node:')),
        specifier,
      ).toEqual([]);
    }
    expect(Object.keys(manifest().dependencies ?? {})).toEqual(BROUGHT_ALONG);
  });

  it(`has a core of at most ${CORE_BYTES_MAX} bytes, minified and gzipped`, async () => {
    const core = await bundle(installed.project, "export { createLocks } from 'holdfast';");
    const whole = await bundle(installed.project, "export * from 'holdfast';");
    console.log(
      `core without a store: ${core.bytes} bytes; all of holdfast, with the memory store: ${whole.bytes}`,
    );
    expect(core.bytes).toBeLessThanOrEqual(CORE_BYTES_MAX);
    expect(whole.bytes).toBeGreaterThan(core.bytes);
  });
});

describe('the types of every entry', () => {
  const settings = Object.keys(SETTINGS) as (keyof typeof SETTINGS)[];
  // The newest compiler has given up the old resolution.
  const modern = settings.filter((setting) => !setting.includes('old'));
  const use = `
    import { createLocks, memoryStore, type Hold, type Locks } from 'holdfast';
    export const locks: Locks = createLocks(memoryStore(), { ttlMs: 1000 });
    export const fence: Promise<bigint> = locks.withLock('a', (hold: Hold) => hold.fence);
    export const ended = (hold: Hold): boolean => hold.signal.aborted;
    export const disposed = (hold: Hold): PromiseLike<void> => hold[Symbol.asyncDispose]();`;
  const importing = (wanted: readonly string[]): string => {
    const lines = wanted.map((specifier, n) => `import * as entry${n} from '${specifier}';`);
    return `${lines.join('\n')}\nexport const all = [${wanted.map((_, n) => `entry${n}`)}];\n${use}`;
  };
  const forNode = { around: '@types/node and no DOM', program: importing(specifiers) } as const;
  const forAny = {
    around: 'the DOM and no @types/node',
    program: importing(specifiers.filter((specifier) => !NEED_NODE_TYPES.has(specifier))),
  } as const;
  const projects: Omit<UserProject, 'program'>[] = [
    ...settings.map((setting) => ({ tsc: 'typescript5', setting, around: forAny.around }) as const),
    ...modern.map((setting) => ({ tsc: 'typescript', setting, around: forAny.around }) as const),
    ...modern.map((setting) => ({ tsc: 'typescript', setting, around: forNode.around }) as const),
  ];

  it.each(projects)('compile with $tsc under $setting, with $around', (project) => {
    const { program } = project.around === forNode.around ? forNode : forAny;
    compileProject(installed, { ...project, program });
  });

  it('are seen to fail where they are wrong', () => {
    const program =
      "import { lock } from 'holdfast';\nimport * as no from 'holdfast/no';\nexport const l = [lock, no];";
    const wrong = {
      tsc: 'typescript',
      setting: 'esnext for a bundler',
      around: forAny.around,
      program,
    } as const;
    expect(() => compileProject(installed, wrong)).toThrow(/has no exported member.*\n.*TS2307/);
  });

  it('keep their reference to what is newer than the oldest supported library', () => {
    const store = join(installed.project, 'node_modules/holdfast/dist/store/store.d.ts');
    expect(readFileSync(store, 'utf8')).toMatch(
      /^\/\/\/ <reference lib="esnext\.disposable" preserve="true" \/>/,
    );
  });
});
