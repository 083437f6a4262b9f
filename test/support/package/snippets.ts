import type { TidyFile } from '../tidy/file.ts';

/** A TypeScript example of a page. */
export interface Snippet {
  readonly page: string;
  /** The line of the page at which it begins. */
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

/** Code of a page that is quoted from an example: its fence names the file, as in `ts examples/a.ts`. */
export interface Quote {
  readonly page: string;
  readonly line: number;
  readonly example: string;
  readonly code: string;
}

export function quotesOf(file: TidyFile): Quote[] {
  const fences = file.text.matchAll(/^```\w+ (examples\/\S+)\n([\s\S]*?)^```/gm);
  return [...fences].map((match) => ({
    page: file.path,
    line: file.text.slice(0, match.index).split('\n').length + 1,
    example: match[1] ?? '',
    code: match[2] ?? '',
  }));
}

/** The lines that a quote has, and its example has not, or not in this order. A quote may leave lines out. */
export function wronglyQuoted(quote: string, example: string): string[] {
  const trimmed = (text: string): string[] =>
    text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
  const lines = trimmed(example);
  let next = 0;
  return trimmed(quote).filter((line) => {
    const found = lines.indexOf(line, next);
    if (found >= 0) next = found + 1;
    return found < 0;
  });
}

/**
 * The file that a snippet is compiled as. Its lines have the same numbers as on the page, so
 * that an error points there. It is a module, so that two snippets may use the same names.
 */
export function snippetFile(snippet: Snippet): { name: string; text: string } {
  return {
    name: `${snippet.page.replaceAll('/', '+')}.${snippet.line}.ts`,
    text: `${'\n'.repeat(snippet.line - 1)}${snippet.code}\nexport {};\n`,
  };
}

/** What a snippet may use without making it: the locks of the reader. */
export const SNIPPET_GLOBALS = `import type { Locks } from 'holdfast';
declare global {
  const locks: Locks;
}
`;
