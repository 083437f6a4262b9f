import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { repositoryFiles, root } from './support/tidy/file.ts';
import { rowsNamed, rowsOf, testsByRow, withIndex, withTests } from './support/tidy/generated-docs.ts';

const files = repositoryFiles();
const textOf = (path: string): string => files.find((file) => file.path === path)?.text ?? '';
const HINT = 'Out of date: run `npm run docs`, look at the difference and commit it';

describe('the page on faults', () => {
  const page = textOf('docs/faults.md');
  const tests = testsByRow(files);

  it('lists for each row the tests that name it', async () => {
    await expect(withTests(page, tests), HINT).toMatchFileSnapshot(join(root, 'docs/faults.md'));
  });

  it('has 61 rows, and says for each what shows it', () => {
    expect(rowsOf(page)).toHaveLength(61);
    expect([...page.matchAll(/^Tests: \S/gm)]).toHaveLength(61);
  });

  it('has every row that a test names', () => {
    expect([...tests.keys()].filter((row) => !rowsOf(page).includes(row))).toEqual([]);
  });

  it('finds every form in which a test names its rows', () => {
    const title = 'row 1, row 13: a; rows 40, 43 and 44; row 37b, under %s; Row 5: narrow 6; row 7';
    expect([...rowsNamed(title)]).toEqual(['1', '13', '40', '43', '44', '37b', '5', '7']);
    const before =
      '### Row 1: a\n\nTests: `old.test.ts`,\n`older.test.ts`.\n\n### Row 2: b\n\nTests: none yet.\n';
    const after = '### Row 1: a\n\nTests: `new.test.ts`.\n\n### Row 2: b\n\nTests: none yet.\n';
    expect(withTests(before, new Map([['1', ['new.test.ts']]]))).toBe(after);
  });
});

describe('the index of decisions', () => {
  const pages = files.filter(({ path }) => /^docs\/decisions\/(?!README).*\.md$/.test(path));

  it('has one line for each page, with its title', async () => {
    const index = withIndex(textOf('docs/decisions/README.md'), pages);
    await expect(index, HINT).toMatchFileSnapshot(join(root, 'docs/decisions/README.md'));
  });

  it('reads the titles from the pages', () => {
    const made = withIndex('# D\n\n## Index\n\nold\n', [
      { path: 'docs/decisions/redis-a.md', text: '# A is b\n' },
    ]);
    expect(made).toContain('### Redis\n\n- [A is b](redis-a.md)\n');
    expect(made).not.toContain('old');
  });
});
