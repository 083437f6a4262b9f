import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript5';
import { afterAll } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const folder = `${root}.tmp/nestjs-${process.pid}`;

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/**
 * The main file of `examples/nestjs` as JavaScript. esbuild does not emit the metadata of legacy
 * decorators, so TypeScript compiles the files, with the settings of their own `tsconfig.json`.
 */
export function compileNestjs(): string {
  const from = `${root}examples/nestjs/`;
  const { config } = ts.readConfigFile(`${from}tsconfig.json`, (path) => readFileSync(path, 'utf8'));
  const { options } = ts.convertCompilerOptionsFromJson(
    { ...config.compilerOptions, module: 'esnext', noEmit: false },
    from,
  );
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(from).filter((each) => each.endsWith('.ts'))) {
    const source = readFileSync(from + name, 'utf8');
    const { outputText } = ts.transpileModule(source, { fileName: from + name, compilerOptions: options });
    writeFileSync(`${folder}/${name.replace(/ts$/, 'js')}`, outputText);
  }
  return `${folder}/main.js`;
}
