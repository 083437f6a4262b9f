import { buildSync } from 'esbuild';
import { describe, expect, it } from 'vitest';
import { publicEntries } from '../support/package/public-entries.ts';

/** The files of an entry, and what it imports besides: packages and modules of Node.js. */
function loaded(source: string): { files: string[]; others: string[] } {
  const { metafile } = buildSync({
    entryPoints: [source],
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    metafile: true,
    write: false,
    logLevel: 'error',
  });
  const imports = Object.values(metafile.inputs).flatMap((input) => input.imports);
  const others = imports.filter(({ external }) => external === true).map(({ path }) => path);
  return { files: Object.keys(metafile.inputs), others: [...new Set(others)] };
}

const DASHBOARD = 'src/dashboard/index.ts';

describe('the dashboard', () => {
  it.each(publicEntries().map(({ source }) => source))('is loaded by its own entry alone: %s', (source) => {
    const parts = loaded(source).files.filter((file) => file.startsWith('src/dashboard/'));
    if (source === DASHBOARD) expect(parts).toContain('src/dashboard/dashboard.ts');
    else expect(parts).toEqual([]);
  });

  it('needs no package', () => {
    const { others } = loaded(DASHBOARD);
    expect(others.filter((path) => !path.startsWith('node:'))).toEqual([]);
    expect(others).toContain('node:stream');
  });
});
