import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

export const BUNDLERS = ['esbuild', 'webpack', 'rollup'] as const;
export const FORMATS = ['esm', 'cjs'] as const;
export type Bundler = (typeof BUNDLERS)[number];
export type Format = (typeof FORMATS)[number];

/** The bundle in each format. */
export type Bundles = Readonly<Record<Format, string>>;

interface Job {
  readonly folder: string;
  readonly input: string;
  readonly output: string;
}

const NAMES = { esm: 'main.mjs', cjs: 'main.cjs' } as const;

/**
 * Bundles a program that stands in `folder` in both formats, in the way that each bundler's first
 * page shows for Node.js. Rejects when the bundler reports an error.
 */
export async function makeBundles(bundler: Bundler, folder: string, program: string): Promise<Bundles> {
  const input = join(folder, `${bundler}.js`);
  const output = join(folder, 'out', bundler);
  writeFileSync(input, program);
  await { esbuild: withEsbuild, webpack: withWebpack, rollup: withRollup }[bundler]({
    folder,
    input,
    output,
  });
  return { esm: join(output, 'esm', NAMES.esm), cjs: join(output, 'cjs', NAMES.cjs) };
}

async function withEsbuild({ input, output }: Job): Promise<void> {
  const made = FORMATS.map((format) =>
    build({
      entryPoints: [input],
      bundle: true,
      platform: 'node',
      format,
      outfile: join(output, format, NAMES[format]),
      logLevel: 'silent',
    }),
  );
  const warnings = (await Promise.all(made)).flatMap((each) => each.warnings);
  if (warnings.length > 0) throw new Error(JSON.stringify(warnings));
}

type Webpack = (
  options: readonly object[],
  done: (error: Error | null, stats?: { hasErrors(): boolean; toString(options: object): string }) => void,
) => void;

async function withWebpack({ folder, input, output }: Job): Promise<void> {
  const { default: webpack } = (await import('webpack' as string)) as { readonly default: Webpack };
  const options = FORMATS.map((format) => ({
    // Minifying takes long and says nothing here.
    mode: 'none',
    target: 'node',
    context: folder,
    entry: input,
    output: {
      path: join(output, format),
      filename: NAMES[format],
      chunkFilename: NAMES[format].replace('main', '[id]'),
      ...(format === 'esm' ? { module: true } : {}),
    },
    ...(format === 'esm' ? { experiments: { outputModule: true } } : {}),
  }));
  await new Promise<void>((resolve, reject) => {
    webpack(options, (error, stats) => {
      if (error === null && stats?.hasErrors() === false) resolve();
      else reject(error ?? new Error(stats?.toString({ all: false, errors: true })));
    });
  });
}

interface Rollup {
  rollup(options: object): Promise<{ write(options: object): Promise<unknown>; close(): Promise<void> }>;
}
interface RollupPlugin {
  readonly default: () => object;
}

async function withRollup({ input, output }: Job): Promise<void> {
  const { rollup } = (await import('rollup' as string)) as Rollup;
  const { default: resolve } = (await import('@rollup/plugin-node-resolve' as string)) as RollupPlugin;
  const { default: commonjs } = (await import('@rollup/plugin-commonjs' as string)) as RollupPlugin;
  // What is missing, and what Node.js has itself, stays outside with a warning.
  const made = await rollup({ input, plugins: [resolve(), commonjs()], onwarn: () => {} });
  for (const format of FORMATS) {
    await made.write({
      dir: join(output, format),
      format,
      entryFileNames: NAMES[format],
      chunkFileNames: NAMES[format].replace('main', '[name]-[hash]'),
    });
  }
  await made.close();
}
