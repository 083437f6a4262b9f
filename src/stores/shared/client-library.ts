import { UnsupportedError } from '../../errors.ts';
import { installedVersion } from './installed.ts';

/**
 * The oldest versions that this package is tested with. Before 3.4.8, postgres.js reported a statement as
 * done although its commit could still fail.
 */
const OLDEST: Readonly<Record<string, string>> = {
  'better-sqlite3': '12',
  etcd3: '1.1',
  ioredis: '5',
  libsql: '0.5',
  mysql2: '3',
  'node-zookeeper-client': '1.1',
  pg: '8',
  postgres: '3.4.8',
  redis: '5',
};

const BY_NUMBERS = new Intl.Collator('en', { numeric: true });

/** A client library that the user brings. */
export interface ClientLibrary<T> {
  /** The name of its package. */
  readonly name: string;
  /** Resolves to undefined when it is not installed. */
  load(): Promise<T | undefined>;
}

/**
 * The first of these libraries that is installed, in a version that works. Rejects with an
 * `UnsupportedError` that names the version that is too old, or the package to install.
 */
export async function firstInstalled<T>(
  purpose: string,
  libraries: readonly ClientLibrary<T>[],
): Promise<{ readonly name: string; readonly library: T }> {
  const tooOld: string[] = [];
  for (const { name, load } of libraries) {
    const refusal = refusalOf(name, installedVersion(name));
    if (refusal !== null) tooOld.push(refusal);
    const library = refusal === null ? await load() : undefined;
    if (library !== undefined) return { name, library };
  }
  if (tooOld.length > 0) throw new UnsupportedError(`${purpose}: ${tooOld.join('; ')}`);
  const [first, ...others] = libraries.map(({ name }) => `npm install ${name}`);
  const or = others.map((each) => ` (or: ${each})`).join('');
  throw new UnsupportedError(`${purpose} needs a client library: ${first}${or}`);
}

/** Why this version of a library cannot be used; `null` when it can, or when its version is not known. */
export function refusalOf(name: string, version: string | null): string | null {
  const least = OLDEST[name] ?? '0';
  if (version === null || BY_NUMBERS.compare(version, least) >= 0) return null;
  return `${name} ${version} is installed, and ${least} or newer is needed: npm install ${name}@latest`;
}

/**
 * Loads a package from `node_modules`, also from inside a bundle; undefined when it is not
 * installed. Bundlers leave an import without a literal name as it is.
 */
export async function importInstalled(name: string): Promise<unknown> {
  try {
    return await import(/* webpackIgnore: true */ /* @vite-ignore */ name);
  } catch (error) {
    if (MISSING.has((error as { code?: unknown }).code)) return undefined;
    throw error;
  }
}

/** The error codes of `import` and `require()` for a package that is not installed. */
const MISSING: ReadonlySet<unknown> = new Set(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND']);

/** A CommonJS library arrives as its exports, or as a namespace with them as `default`. */
export function exportsWith<T extends object>(key: keyof T, loaded: unknown): T | undefined {
  const candidates = [loaded, (loaded as { default?: unknown } | undefined)?.default];
  return candidates.find((each): each is T => (each as Partial<T> | undefined)?.[key] !== undefined);
}
