import { gzipSync } from 'node:zlib';
import { build, type Plugin } from 'esbuild';

/** What a program loads at once when it starts. */
export interface Loaded {
  /** Minified and gzipped. */
  readonly bytes: number;
  /** Modules that do not come with the package. */
  readonly externals: readonly string[];
}

/** Stays outside: dependencies of the user, and modules that are loaded on demand. */
const outside: Plugin = {
  name: 'outside',
  setup: ({ onResolve }) =>
    onResolve({ filter: /./ }, ({ path, kind }) => {
      const isOurs = /^(?:\.|holdfast(?:\/|$))/.test(path) && kind !== 'dynamic-import';
      return isOurs ? null : { path, external: true };
    }),
};

/** Bundles a program that is in `folder`. */
export async function bundle(folder: string, program: string): Promise<Loaded> {
  const { metafile, outputFiles } = await build({
    stdin: { contents: program, resolveDir: folder },
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    write: false,
    metafile: true,
    plugins: [outside],
  });
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports);
  return {
    bytes: gzipSync(Buffer.concat(outputFiles.map((file) => file.contents)), { level: 9 }).length,
    externals: imports.filter((each) => each.kind === 'import-statement').map((each) => each.path),
  };
}
