import { readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A file of the repository, or a sample. The path is relative to the root, with `/`. */
export interface TidyFile {
  readonly path: string;
  readonly text: string;
}

/** One rule, as a pure function of the text of one file. */
export interface Check {
  readonly rule: string;
  covers(path: string): boolean;
  /** The violations, one line each. */
  find(file: TidyFile): string[];
  /** Violates the rule once, so that the check is seen to fail. */
  readonly bad: TidyFile;
  /** Comes close, and does not violate it. */
  readonly good: TidyFile;
}

export const root = fileURLToPath(new URL('../../..', import.meta.url));

const IGNORED = new Set(['.git', '.tmp', 'node_modules', 'dist', 'coverage']);
const BINARY = new Set(['.png', '.jpg', '.gif', '.ico', '.woff2', '.db', '.tgz']);

/** Every text file of the repository, also those that are not committed yet. */
export function repositoryFiles(folder = ''): TidyFile[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry): TidyFile[] => {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    if (IGNORED.has(entry.name)) return [];
    if (entry.isDirectory()) return repositoryFiles(path);
    if (!entry.isFile() || BINARY.has(extname(entry.name))) return [];
    return [{ path, text: readFileSync(join(root, path), 'utf8') }];
  });
}

/**
 * Whether the path lies in one of these top folders and ends in one of these. Generated code is left out.
 */
export function within(folders: readonly string[], endings: readonly string[] = ['']): Check['covers'] {
  return (path) =>
    !path.startsWith('src/generated/') &&
    folders.some((folder) => path.startsWith(`${folder}/`)) &&
    endings.some((ending) => path.endsWith(ending));
}

/** `path:line: problem`, as editors understand it. */
export function at(file: TidyFile, index: number, problem: string): string {
  const line = file.text.slice(0, index).split('\n').length;
  return `${file.path}:${line}: ${problem}`;
}

export function countLines(text: string): number {
  return text === '' ? 0 : text.replace(/\n$/, '').split('\n').length;
}
