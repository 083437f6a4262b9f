import { mkdirSync, rmSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import { compile } from './compile.ts';

/** Inside the project, where compiled scripts find the libraries. */
const folder = fileURLToPath(new URL(`../../../.tmp/scripts-${process.pid}`, import.meta.url));
const files = new Map<string, string>();

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/**
 * The script as one file that Node.js can run, compiled once for each test file. Starting it through a
 * loader would take longer than most tests, and much longer on a busy machine.
 */
export function compiled(script: string): string {
  const known = files.get(script);
  if (known !== undefined) return known;
  mkdirSync(folder, { recursive: true });
  const outfile = `${folder}/${basename(script, '.ts')}-${files.size}.mjs`;
  compile(script, outfile);
  files.set(script, outfile);
  return outfile;
}
