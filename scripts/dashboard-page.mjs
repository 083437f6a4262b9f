// The page of the dashboard as texts: `src/dashboard/page/main.tsx` with everything that it imports,
// bundled and minified. The package serves these texts and reads no files when it runs.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/** The name under which `src/dashboard/page-text.ts` finds the texts. */
export const PAGE_NAME = 'HOLDFAST_DASHBOARD_PAGE';

const NOTICE =
  '/* Contains Preact, (c) 2015-present Jason Miller, and uPlot, (c) 2022 Leon Sorokin; both MIT licensed */';

const entry = fileURLToPath(new URL('../src/dashboard/page/main.tsx', import.meta.url));
const tag = (text) => createHash('sha256').update(text).digest('hex').slice(0, 16);

function bundle() {
  const { outputFiles } = buildSync({
    entryPoints: [entry],
    bundle: true,
    platform: 'browser',
    target: ['es2022'],
    format: 'esm',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    minify: true,
    legalComments: 'none',
    // The licences themselves are in THIRD-PARTY-NOTICES.txt, which the package has.
    banner: { js: NOTICE, css: NOTICE },
    outdir: '.',
    write: false,
    logLevel: 'error',
  });
  const textOf = (ending) => outputFiles.find(({ path }) => path.endsWith(ending))?.text ?? '';
  return { script: textOf('.js'), style: textOf('.css') };
}

export function dashboardPage() {
  const { script, style } = bundle();
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  return { version, script, scriptTag: tag(script), style, styleTag: tag(style) };
}
