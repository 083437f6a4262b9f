import type { TidyFile } from './file.ts';

const TESTS_LINE = 'Tests:';
const WIDTH_MAX = 150;

/** The rows of `docs/faults.md` that a test names: `row 6`, `rows 41 and 42`, `row 1, row 13`. */
export function rowsNamed(text: string): Set<string> {
  const mentions = text.matchAll(/\brows? (\d+[a-d]?(?:(?:, row |, | and )\d+[a-d]?)*)\b/gi);
  return new Set([...mentions].flatMap((match) => (match[1] ?? '').match(/\d+[a-d]?/g) ?? []));
}

/** The rows that the page describes, in its order. */
export function rowsOf(page: string): string[] {
  return [...page.matchAll(/^### Row (\d+[a-d]?):/gm)].map((match) => match[1] ?? '');
}

/** The test files of the repository by the rows that they name. */
export function testsByRow(files: readonly TidyFile[]): Map<string, string[]> {
  const tests = new Map<string, string[]>();
  for (const { path, text } of files.filter((file) => /^test\/(?!tidy).*\.test\.ts$/.test(file.path))) {
    for (const row of rowsNamed(text)) tests.set(row, [...(tests.get(row) ?? []), path]);
  }
  return tests;
}

/**
 * The page on faults with its lists of tests regenerated. A row without a test keeps what the page
 * says there, which has to be the reason.
 */
export function withTests(page: string, tests: ReadonlyMap<string, readonly string[]>): string {
  let row = '';
  return page.replace(/^### Row (\w+):.*$|^Tests:.*(?:\n.+)*$/gm, (found, heading?: string) => {
    if (heading !== undefined) row = heading;
    const paths = tests.get(row);
    if (heading !== undefined || paths === undefined) return found;
    const items = [...paths].sort().map((path, n) => `\`${path}\`${n === paths.length - 1 ? '.' : ','}`);
    return wrap([TESTS_LINE, ...items]);
  });
}

function wrap(words: readonly string[]): string {
  const lines: string[] = [];
  for (const word of words) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && longer.length <= WIDTH_MAX) lines.splice(-1, 1, longer);
    else lines.push(word);
  }
  return lines.join('\n');
}

/** The groups of the index of decisions, by how the name of a page begins. */
const GROUPS: Readonly<Record<string, RegExp>> = {
  'Core and command line': /^(?!redis-|redlock-|postgres-|mysql-|sqlite-|etcd-|zookeeper-)/,
  Redis: /^redis-/,
  Redlock: /^redlock-/,
  PostgreSQL: /^postgres-/,
  MySQL: /^mysql-/,
  SQLite: /^sqlite-/,
  etcd: /^etcd-/,
  ZooKeeper: /^zookeeper-/,
};

/** The index of decisions with its list, below the heading "Index", regenerated from the titles. */
export function withIndex(index: string, pages: readonly TidyFile[]): string {
  const entries = pages.map(({ path, text }) => ({
    name: path.replace(/^.*\//, ''),
    title: /^# (.*)$/m.exec(text)?.[1] ?? 'no title',
  }));
  const sections = Object.entries(GROUPS).map(([heading, prefix]) => {
    const listed = entries.filter(({ name }) => prefix.test(name));
    return `### ${heading}\n\n${listed.map(({ name, title }) => `- [${title}](${name})\n`).join('')}`;
  });
  return `${index.slice(0, index.indexOf('## Index'))}## Index\n\n${sections.join('\n')}`;
}
