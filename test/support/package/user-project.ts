import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { InstalledPackage } from './installed-package.ts';
import { type Compiler, compiler, repository, startNode } from './staged-package.ts';

/** The type declarations around a program. */
export const SURROUNDINGS = {
  'the DOM and no @types/node': { lib: ['es2022', 'dom'], types: [] },
  '@types/node and no DOM': {
    lib: ['es2022'],
    types: ['node'],
    typeRoots: [join(repository, 'node_modules/@types')],
  },
} as const;

export const SETTINGS = {
  'nodenext, in a package of modules': { type: 'module', options: { module: 'nodenext' } },
  'nodenext, in a CommonJS package': { type: 'commonjs', options: { module: 'nodenext' } },
  'node16, in a package of modules': { type: 'module', options: { module: 'node16' } },
  'node16, in a CommonJS package': { type: 'commonjs', options: { module: 'node16' } },
  'esnext for a bundler': { type: 'module', options: { module: 'esnext', moduleResolution: 'bundler' } },
  'commonjs with the old resolution': {
    type: 'commonjs',
    options: { module: 'commonjs', moduleResolution: 'node10' },
  },
} as const;

export interface UserProject {
  readonly tsc: Compiler;
  readonly setting: keyof typeof SETTINGS;
  readonly around: keyof typeof SURROUNDINGS;
  readonly program: string;
}

let projects = 0;

/**
 * Compiles a program in a project inside the one with the package, so that one installation serves
 * all of them.
 */
export async function compileProject(
  installed: InstalledPackage,
  { tsc, setting, around, program }: UserProject,
): Promise<void> {
  projects += 1;
  const folder = join(installed.project, `p${projects}`);
  const { type, options } = SETTINGS[setting];
  const compilerOptions = {
    target: 'es2022',
    strict: true,
    noEmit: true,
    // Every declaration of ours is checked; the compiler's own need not be.
    skipLibCheck: false,
    skipDefaultLibCheck: true,
    ...options,
    ...SURROUNDINGS[around],
  };
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type }));
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
  writeFileSync(join(folder, 'main.ts'), program);
  await startNode(folder, [compiler(tsc), '-p', '.', '--pretty', 'false']);
}
