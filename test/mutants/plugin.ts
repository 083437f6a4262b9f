import type { Plugin } from 'vitest/config';

/** Loads the source with one defect in it, so that production code knows nothing of mutants. */
export function mutate({ file, text }: { readonly file: string; readonly text: string }): Plugin {
  return {
    name: 'holdfast-mutant',
    enforce: 'pre',
    transform: (_code, id) => (id === file ? text : null),
  };
}
