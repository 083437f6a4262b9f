import { mkdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll } from 'vitest';
import { dashboardPage, PAGE_NAME } from '../../../scripts/dashboard-page.mjs';
import { type Program, type Result, startProgram } from '../../support/process/program.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const folder = `${root}.tmp/cli-${process.pid}`;
let built: Promise<string> | null = null;

afterAll(() => rmSync(folder, { recursive: true, force: true }));

export { type Program as Holdfast, stopPrograms as stopAll } from '../../support/process/program.ts';

/**
 * The command line as published, compiled once for each test file. The output is inside the project,
 * where it finds the libraries.
 */
export async function holdfastFile(): Promise<string> {
  built ??= (async () => {
    mkdirSync(folder, { recursive: true });
    await build({
      entryPoints: {
        main: `${root}src/cli/main.ts`,
        guard: `${root}src/cli/guard.ts`,
        worker: `${root}src/torture/worker.ts`,
      },
      outdir: folder,
      bundle: true,
      platform: 'node',
      format: 'cjs',
      outExtension: { '.js': '.cjs' },
      packages: 'external',
      define: { [PAGE_NAME]: JSON.stringify(dashboardPage()) },
      logLevel: 'error',
    });
    return `${folder}/main.cjs`;
  })();
  return await built;
}

export async function start(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Program> {
  return startProgram(await holdfastFile(), args, { env });
}

export async function holdfast(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Result> {
  return await (await start(args, env)).result();
}
