import { fileURLToPath } from 'node:url';
import type { Plugin } from 'vitest/config';
import { CALL_MUTANTS } from './call-mutants.ts';
import { HOLD_MUTANTS } from './hold-mutants.ts';
import { STORE_MUTANTS } from './store-mutants.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Loads the source with one mistake in it, so that production code needs to know nothing of mutants. */
export function mutate(mistake: string): Plugin {
  const mutant = [...STORE_MUTANTS, ...HOLD_MUTANTS, ...CALL_MUTANTS].find(
    (each) => each.mistake === mistake,
  );
  if (mutant === undefined) throw new Error(`no such mutant: ${mistake}`);
  return {
    name: 'holdfast-mutant',
    enforce: 'pre',
    transform(code, id) {
      if (id !== `${ROOT}${mutant.file}`) return null;
      return code.replace(mutant.find, () => mutant.replace);
    },
  };
}
