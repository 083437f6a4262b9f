import { readFileSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';

/**
 * Loads packages with native code from `node_modules`. Bundlers must not see these imports, because
 * they cannot include native code.
 */
export const requireInstalled = process.getBuiltinModule('node:module').createRequire(ownFile());

/** An ES module in a bundle does not know its own file without `import.meta`, which CommonJS lacks. */
export function ownFile(): string {
  if (typeof __filename === 'string') return __filename;
  const program = process.argv[1] ?? '';
  return isAbsolute(program) ? program : join(process.cwd(), 'program.js');
}

/** `null` when the package is not installed. Not every package exports its `package.json`. */
export function installedVersion(name: string): string | null {
  try {
    for (let folder = dirname(requireInstalled.resolve(name)); ; folder = dirname(folder)) {
      const manifest = manifestIn(folder);
      if (manifest?.name === name) return manifest.version ?? null;
      if (folder === dirname(folder)) return null;
    }
  } catch {
    return null;
  }
}

function manifestIn(folder: string): { readonly name?: string; readonly version?: string } | null {
  try {
    return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  } catch {
    return null;
  }
}
