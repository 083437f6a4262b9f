import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Something that users may import, as package.json has it. */
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
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>;
  readonly typesVersions: { readonly '*': Readonly<Record<string, readonly string[]>> };
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly bin?: Readonly<Record<string, string>>;
}

export function manifest(): Manifest {
  return JSON.parse(readFileSync(fileURLToPath(new URL('../../package.json', import.meta.url)), 'utf8'));
}

/** Derived from `exports`, so that a new entry is tested the moment it exists. */
export function publicEntries(): readonly PublicEntry[] {
  const { name, exports } = manifest();
  // Sorted: in which order entries were added says nothing.
  const sorted = Object.entries(exports).sort(([a], [b]) => (a < b ? -1 : 1));
  return sorted.flatMap(([key, target]): PublicEntry[] => {
    if (typeof target === 'string') return [];
    const built = target.default.replace(/^\.\/|\.js$/g, '');
    const subpath = key.replace(/^\.\/?/, '');
    return [
      {
        specifier: subpath === '' ? name : `${name}/${subpath}`,
        subpath,
        built,
        source: `${built.replace(/^dist/, 'src')}.ts`,
      },
    ];
  });
}
