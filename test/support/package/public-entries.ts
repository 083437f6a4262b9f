import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Something that users may import, as `scripts/entries.json` has it. */
export interface PublicEntry {
  /** As it is imported: `holdfast`, `holdfast/testing`. */
  readonly specifier: string;
  /** `''` for the core, else what follows the slash. */
  readonly subpath: string;
  /** `dist/…`, without the ending. */
  readonly built: string;
  /** `src/….ts` */
  readonly source: string;
}

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly main: string;
  readonly types: string;
  readonly files: readonly string[];
  readonly exports: Readonly<Record<string, unknown>>;
  readonly typesVersions: { readonly '*': Readonly<Record<string, readonly string[]>> };
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: boolean }>>;
  readonly bin?: Readonly<Record<string, string>>;
}

export function manifest(): Manifest {
  return readJson('package.json');
}

export function publicEntries(): readonly PublicEntry[] {
  const { name } = manifest();
  return Object.entries(readJson<Record<string, string>>('scripts/entries.json')).map(([key, file]) => {
    const subpath = key.replace(/^\.\/?/, '');
    return {
      specifier: subpath === '' ? name : `${name}/${subpath}`,
      subpath,
      built: `dist/${file}`,
      source: `src/${file}.ts`,
    };
  });
}

function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), 'utf8'));
}
