// The program of the renewal thread as one text: `src/thread/program.ts` with everything that it
// imports but the client libraries.
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/** The name under which `src/thread/program-text.ts` finds the text. */
export const NAME = 'HOLDFAST_THREAD_PROGRAM';

// A thread that is started from a text would look for client libraries from the working directory on.
const BEGIN = '(function (require, __filename) {';
const END = `})(
  require('node:module').createRequire(require('node:worker_threads').workerData.file),
  require('node:worker_threads').workerData.file,
);
`;

export function threadProgram() {
  const { outputFiles } = buildSync({
    entryPoints: [fileURLToPath(new URL('../src/thread/program.ts', import.meta.url))],
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    packages: 'external',
    // Names stay, for stack traces.
    minifyWhitespace: true,
    minifySyntax: true,
    write: false,
    logLevel: 'error',
  });
  return `${BEGIN}${outputFiles[0].text}${END}`;
}
