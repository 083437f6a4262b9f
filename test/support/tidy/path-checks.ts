import { at, type Check } from './file.ts';

/** The pages for maintainers, on which a code span that looks like a path is one. */
const PAGES = ['docs/architecture.md', 'test/README.md', 'CONTRIBUTING.md', 'docs/decisions/README.md'];

const ROOTS = /^(?:src|test|bench|docs|scripts|examples)\//;

/**
 * Files, folders and symbols that a page names: `src/a.ts`, `src/stores/`, or `src/a.ts` followed
 * by the symbol to look for. `textOf`: the text of a file, `''` for a folder.
 */
export function namedPaths(textOf: (path: string) => string | undefined): Check {
  return {
    rule: 'a page for maintainers names files and symbols that exist',
    covers: (path) => PAGES.includes(path),
    find: (file) =>
      [...file.text.matchAll(/`([^`\s]+)`(?: `([^`\s]+)`)?/g)].flatMap((match) => {
        const [, path = '', symbol] = match;
        if (!ROOTS.test(path) || /[*<>…]/.test(path)) return [];
        const text = textOf(path.replace(/\/$/, ''));
        if (text === undefined) return [at(file, match.index, `${path} does not exist`)];
        const isFound = symbol === undefined || text.includes(symbol);
        return isFound ? [] : [at(file, match.index, `${path} does not mention ${symbol}`)];
      }),
    bad: { path: 'docs/architecture.md', text: 'See `src/index.ts` and `src/indices.ts`.' },
    good: { path: 'docs/architecture.md', text: 'See `src/index.ts` `createLocks`, `src/store/`, `a/b`.' },
  };
}
