import type { TidyFile } from './tidy/file.ts';

/** A TypeScript example of a page. */
export interface Snippet {
  readonly page: string;
  /** Where its first line stands on the page. */
  readonly line: number;
  readonly code: string;
}

/** What the fences marked `ts` contain. */
export function snippetsOf(file: TidyFile): Snippet[] {
  const fences = file.text.matchAll(/^( *)```(?:ts|typescript)\b[^\n]*\n([\s\S]*?)^\1```/gm);
  return [...fences].map((match) => ({
    page: file.path,
    line: file.text.slice(0, match.index).split('\n').length + 1,
    code: match[2] ?? '',
  }));
}

/**
 * The file that a snippet is compiled as. Its lines stand where they stand on the page, so that an error points there; and it is a module,
 * so that two snippets may use the same names.
 */
export function snippetFile(snippet: Snippet): { name: string; text: string } {
  return {
    name: `${snippet.page.replaceAll('/', '+')}.${snippet.line}.ts`,
    text: `${'\n'.repeat(snippet.line - 1)}${snippet.code}\nexport {};\n`,
  };
}

/** What a snippet may use without making it: the locks of the page's reader. */
export const SNIPPET_GLOBALS = `import type { Locks } from 'holdfast';
declare global {
  const locks: Locks;
}
`;
