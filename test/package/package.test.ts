import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { bundle } from '../support/package/bundle.ts';
import { installPackage } from '../support/package/installed-package.ts';
import { manifest, publicEntries } from '../support/package/public-entries.ts';
import { repository, runNode } from '../support/package/staged-package.ts';
import { compileProject, SETTINGS, type UserProject } from '../support/package/user-project.ts';
import { links } from '../support/tidy/text-checks.ts';

// Compilers and package managers take seconds of processor time, and other test files run meanwhile.
vi.setConfig({ testTimeout: 240_000 });

const CORE_BYTES_MAX = 20_000;
/** What an entry loads besides Node.js. */
const LOADS: Readonly<Record<string, readonly string[]>> = {
  'holdfast/schedule': ['croner'],
  'holdfast/otel': ['@opentelemetry/api'],
};
/** Needed by the command line, and by `holdfast/schedule`, only. One more is a decision. */
const BROUGHT_ALONG = ['commander', 'croner'];
/**
 * Their declarations mention a `Buffer`, as those of their client library do. All others compile in
 * a project that has no @types/node.
 */
const NEED_NODE_TYPES = new Set(['holdfast/dashboard', 'holdfast/etcd', 'holdfast/zookeeper']);

const installed = installPackage();
afterAll(() => installed[Symbol.dispose]());
const entries = publicEntries();
const specifiers = entries.map((entry) => entry.specifier);

describe('the packed package', () => {
  it('contains what it names, and nothing of the workshop', () => {
    const { bin = {} } = manifest();
    const named = entries.flatMap(({ built }) => [
      ...['js', 'd.ts', 'mjs', 'd.mts'].map((ending) => `${built}.${ending}`),
      `${built.replace('dist/', 'dist/esm/')}.js`,
    ]);
    const programs = Object.values(bin).map((path) => path.replace('./', ''));
    const needed = [...named, ...programs, 'LICENSE', 'CHANGELOG.md', 'THIRD-PARTY-NOTICES.txt'];
    expect(needed.filter((path) => !installed.files.includes(path))).toEqual([]);
    const known = [
      /^dist\/.*\.(?:m?js|d\.m?ts)$/,
      /^(?:dist\/(?:esm\/)?)?package\.json$/,
      /^(?:LICENSE|THIRD-PARTY-NOTICES\.txt|(?:README|CHANGELOG|CONTRIBUTING|SECURITY)\.md)$/,
      /^docs\/(?:stores\/)?[\w-]+\.md$/,
      /^docs\/images\/[\w-]+\.(?:png|svg)$/,
    ];
    const isKnown = (path: string): boolean => known.some((pattern) => pattern.test(path));
    expect(installed.files.filter((path) => !isKnown(path))).toEqual([]);
  });

  it('has no dead link on its pages', () => {
    const textOf = (path: string): string | undefined =>
      installed.files.includes(path)
        ? readFileSync(join(installed.project, 'node_modules/holdfast', path), 'utf8')
        : undefined;
    const pages = installed.files.filter((path) => path.endsWith('.md'));
    expect(pages).toEqual(expect.arrayContaining(['README.md', 'docs/guide.md', 'docs/stores/etcd.md']));
    const dead = pages.flatMap((path) => links(textOf).find({ path, text: textOf(path) ?? '' }));
    expect(dead).toEqual([]);
  });

  it('has the entries of scripts/entries.json in package.json, for old and new resolution', () => {
    const { exports, main, types, typesVersions } = manifest();
    runNode(repository, ['scripts/entries.mjs', '--check']);
    expect(Object.keys(exports)).toEqual([
      ...entries.map(({ subpath }) => (subpath === '' ? '.' : `./${subpath}`)),
      './package.json',
    ]);
    const redis = 'stores/redis/index';
    expect(exports['./redis']).toEqual({
      import: {
        types: `./dist/${redis}.d.mts`,
        module: `./dist/esm/${redis}.js`,
        default: `./dist/${redis}.mjs`,
      },
      require: {
        types: `./dist/${redis}.d.ts`,
        module: `./dist/esm/${redis}.js`,
        default: `./dist/${redis}.js`,
      },
    });
    expect({ main, types }).toEqual({ main: './dist/index.js', types: './dist/index.d.ts' });
    const subpaths = entries.flatMap(({ subpath }) => (subpath === '' ? [] : [subpath]));
    expect(Object.keys(typesVersions['*'])).toEqual(subpaths);
    expect(typesVersions['*'].redis).toEqual([`./dist/${redis}.d.ts`]);
  });

  it('is clean to publint', async () => {
    const pkgDir = join(installed.project, 'node_modules/holdfast');
    const { messages, pkg } = await publint({ pkgDir, strict: true, pack: false });
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
  });

  it('is clean to arethetypeswrong, from modules, from CommonJS and for bundlers', () => {
    const attw = join(repository, 'node_modules/@arethetypeswrong/cli/dist/index.js');
    const output = runNode(installed.project, [attw, installed.tarball, '--profile', 'node16']);
    for (const specifier of specifiers) expect(output).toContain(`"${specifier}"`);
  });
});

describe('the installed package', () => {
  const use = `
    const locks = holdfast.createLocks(holdfast.memoryStore());
    locks.withLock('a', (hold) => typeof hold.fence).then(async (kind) => {
      await locks.close();
      const entries = all.filter((each) => Object.keys(each).length > 0).length;
      console.log(JSON.stringify({ kind, entries }));
    });`;
  const expected = `${JSON.stringify({ kind: 'bigint', entries: entries.length })}\n`;

  it('works with import', () => {
    const program = `
      import * as holdfast from 'holdfast';
      const all = await Promise.all(${JSON.stringify(specifiers)}.map((each) => import(each)));${use}`;
    expect(runNode(installed.project, ['--input-type=module', '-e', program])).toBe(expected);
  });

  it('works with require(), without a warning, and on a Node.js that cannot require a module', () => {
    const program = `
      process.on('warning', (warning) => console.log(String(warning)));
      const all = ${JSON.stringify(specifiers)}.map((each) => require(each));
      const holdfast = require('holdfast');${use}`;
    const args = ['--no-experimental-require-module', '--input-type=commonjs', '-e', program];
    expect(runNode(installed.project, args)).toBe(expected);
  });

  it('is one instance of every export, for import and for require()', () => {
    const program = `
      import { createRequire } from 'node:module';
      const require = createRequire(import.meta.url);
      for (const each of ${JSON.stringify(specifiers)}) {
        const [imported, required] = [await import(each), require(each)];
        const names = Object.keys(imported);
        const isSame = names.every((name) => imported[name] === required[name]);
        console.log(isSame && names.join() === Object.keys(required).sort().join());
      }`;
    const output = runNode(installed.project, ['--input-type=module', '-e', program]);
    expect(output).toBe('true\n'.repeat(specifiers.length));
  });

  it('loads nothing but Node.js, whatever entry is asked for, but for two that need a library', async () => {
    for (const specifier of specifiers) {
      const { externals } = await bundle(installed.project, `export * from '${specifier}';`);
      expect(
        [...new Set(externals)].filter((name) => !name.startsWith('node:')),
        specifier,
      ).toEqual(LOADS[specifier] ?? []);
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
  // The oldest compiler is the oldest one that the documentation names.
  const [old, oldest] = ['node16', 'nodenext'].map((other) =>
    settings.filter((each) => !each.includes(other)),
  );
  const projects: Omit<UserProject, 'program'>[] = [
    ...(oldest ?? []).map((setting) => ({ tsc: 'typescript52', setting, around: forAny.around }) as const),
    ...(old ?? []).map((setting) => ({ tsc: 'typescript5', setting, around: forAny.around }) as const),
    ...modern.map((setting) => ({ tsc: 'typescript', setting, around: forAny.around }) as const),
    ...modern.map((setting) => ({ tsc: 'typescript', setting, around: forNode.around }) as const),
  ];

  it.concurrent.each(projects)('compile with $tsc under $setting, with $around', async (project) => {
    const { program } = project.around === forNode.around ? forNode : forAny;
    await compileProject(installed, { ...project, program });
  });

  it('are seen to fail where they are wrong', async () => {
    const program =
      "import { lock } from 'holdfast';\nimport * as no from 'holdfast/no';\nexport const l = [lock, no];";
    const wrong = {
      tsc: 'typescript',
      setting: 'esnext for a bundler',
      around: forAny.around,
      program,
    } as const;
    await expect(compileProject(installed, wrong)).rejects.toThrow(/has no exported member.*\n.*TS2307/);
  });

  it('keep their reference to what is newer than the oldest supported library', () => {
    const store = join(installed.project, 'node_modules/holdfast/dist/store/store.d.ts');
    expect(readFileSync(store, 'utf8')).toMatch(
      /^\/\/\/ <reference lib="esnext\.disposable" preserve="true" \/>/,
    );
  });
});
