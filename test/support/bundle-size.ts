import { basename } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build, type Metafile } from 'esbuild';

/** How many bytes a program loads at once, minified and gzipped. `folder` is where it stands. */
export async function bundleSize(folder: string, program: string): Promise<number> {
  const { metafile, outputFiles } = await build({
    stdin: { contents: program, resolveDir: folder },
    bundle: true,
    minify: true,
    // What is loaded only when a store is asked for goes into chunks of its own.
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    outdir: folder,
    write: false,
    metafile: true,
    logLevel: 'silent',
  });
  const loaded = loadedAtOnce(metafile);
  const chunks = outputFiles.filter((file) => loaded.has(basename(file.path)));
  return gzipSync(Buffer.concat(chunks.map((file) => file.contents)), { level: 9 }).length;
}

/** The entry, and what it imports without being asked. */
function loadedAtOnce({ outputs }: Metafile): Set<string> {
  const paths = new Set(Object.keys(outputs).filter((path) => outputs[path]?.entryPoint === '<stdin>'));
  for (const path of paths) {
    for (const each of outputs[path]?.imports ?? []) {
      if (each.kind === 'import-statement' && each.external !== true) paths.add(each.path);
    }
  }
  return new Set([...paths].map((path) => basename(path)));
}
