import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';
import { dashboardPage, PAGE_NAME } from '../../../scripts/dashboard-page.mjs';
import { NAME, threadProgram } from '../../../scripts/thread-program.mjs';

/** Vitest puts in what the build embeds. Building it here would block the process of the test. */
declare const HOLDFAST_THREAD_PROGRAM: unknown;
declare const HOLDFAST_DASHBOARD_PAGE: unknown;
const hasTexts = typeof HOLDFAST_THREAD_PROGRAM !== 'undefined';

/** What the build embeds in the sources, as JSON. */
let embedded: Record<string, string> | null = null;

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** What a user imports as `holdfast` and `holdfast/redis` comes from the sources. */
function sourcesByName(): Record<string, string> {
  const entries = JSON.parse(readFileSync(`${root}scripts/entries.json`, 'utf8')) as Record<string, string>;
  return Object.fromEntries(
    Object.entries(entries).map(([entry, source]) => [
      `holdfast${entry.slice(1)}`,
      `${root}src/${source}.ts`,
    ]),
  );
}

const BUNDLE = {
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  packages: 'external',
  logLevel: 'error',
} as const;

/** Bundles a script into one file. What the script imports as `holdfast` is the package, as for a user. */
export function bundleWithPackages(script: string, outfile: string): void {
  buildSync({ entryPoints: [script], outfile, ...BUNDLE });
}

/** Bundles a script into one file that Node.js can run. Libraries are not bundled. */
export function compile(script: string, outfile: string): void {
  embedded ??= {
    [NAME]: JSON.stringify(hasTexts ? HOLDFAST_THREAD_PROGRAM : threadProgram()),
    [PAGE_NAME]: JSON.stringify(hasTexts ? HOLDFAST_DASHBOARD_PAGE : dashboardPage()),
  };
  buildSync({ entryPoints: [script], outfile, alias: sourcesByName(), define: embedded, ...BUNDLE });
}
