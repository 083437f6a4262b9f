import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';

type Core = typeof import('holdfast') & typeof import('holdfast/otel');

const root = fileURLToPath(new URL('../../', import.meta.url));
const NO_TELEMETRY = fileURLToPath(new URL('no-telemetry.ts', import.meta.url));
const SOURCE = `export { createLocks, memoryStore } from './src/index.ts';
export { instrument } from './src/telemetry/index.ts';`;

const withoutTelemetry: Plugin = {
  name: 'without-telemetry',
  setup({ onResolve }) {
    onResolve({ filter: /(?:\/events|\/acquire-trace)\.ts$/ }, () => ({ path: NO_TELEMETRY }));
  },
};

/** The core as it is published, and the same without its telemetry. */
export class Builds {
  // Inside the project, where the builds find the libraries.
  readonly #folder = join(root, `.tmp/bench-telemetry-${process.pid}`);
  #loaded = 0;

  async make(): Promise<void> {
    mkdirSync(this.#folder, { recursive: true });
    await Promise.all([this.#bundle('published', []), this.#bundle('without', [withoutTelemetry])]);
  }

  /** Each time another instance, so that no subject shares its compiled code with another one. */
  async load(name: 'published' | 'without'): Promise<Core> {
    this.#loaded += 1;
    const url = pathToFileURL(join(this.#folder, `${name}.mjs`));
    return (await import(`${url}?${this.#loaded}`)) as Core;
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #bundle(name: string, plugins: Plugin[]): Promise<void> {
    await build({
      stdin: { contents: SOURCE, resolveDir: root, loader: 'ts' },
      outfile: join(this.#folder, `${name}.mjs`),
      bundle: true,
      platform: 'node',
      target: 'node20',
      format: 'esm',
      packages: 'external',
      banner: {
        js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
      },
      logLevel: 'error',
      plugins,
    });
  }
}
