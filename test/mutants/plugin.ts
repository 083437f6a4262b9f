import { resolve } from 'node:path';
import type { Plugin } from 'vitest/config';
import type { Mutant } from './mutant.ts';

/** Loads the source with one mistake in it, so that production code needs to know nothing of mutants. */
export function mutate(root: string, { file, find, replace }: Mutant): Plugin {
  const path = resolve(root, file);
  return {
    name: 'holdfast-mutant',
    enforce: 'pre',
    transform: (code, id) => (id === path ? code.replace(find, () => replace) : null),
  };
}
