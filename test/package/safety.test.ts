import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

/** `docs/safety.md` says of every promise which test shows it: `[name](path) “words of its title”`. */
const root = fileURLToPath(new URL('../..', import.meta.url));
const page = readFileSync(join(root, 'docs/safety.md'), 'utf8');
const cases = readdirSync(join(root, 'src/testing/cases'))
  .map((name) => readFileSync(join(root, 'src/testing/cases', name), 'utf8'))
  .join('\n');

const ruleSteps = readFileSync(join(root, 'test/support/rule-steps.ts'), 'utf8');

const NAMED = /\[[^\]]+\]\(\.\.\/(test\/[^)]+)\) “([^”]+)”/g;
const named = [...page.matchAll(NAMED)].map(([, path = '', title = '']) => ({ path, title }));
/** Rows of tables, without their heads. */
const rows = page.split('\n').filter((line) => /^\| (?!what |-)/.test(line));

/** Cases that several files share count for each of them. What is quoted stands in one piece in the source. */
function textOf(path: string): string {
  const own = readFileSync(join(root, path), 'utf8');
  if (path.startsWith('test/conformance/')) return own + cases;
  return own.includes('/rule-steps.ts') ? own + ruleSteps : own;
}

describe('the page on safety', () => {
  it('names tests that exist, by words of their titles', () => {
    const missing = named.filter(({ path, title }) => !textOf(path).includes(title));
    expect(missing).toEqual([]);
    expect(named.length).toBeGreaterThan(60);
  });

  it('has a test for every line, or says that there is nothing to show', () => {
    const bare = rows.filter((row) => row.search(NAMED) < 0 && !/nothing to show|shown there/.test(row));
    expect(bare).toEqual([]);
  });

  it('has a section for every store that can be opened', () => {
    for (const store of [
      'Memory',
      'SQLite',
      'Redis, one server',
      'Redis behind Sentinel',
      'Redis Cluster',
      'Redlock',
    ])
      expect(page).toContain(`\n## ${store}\n`);
    for (const store of [
      'PostgreSQL leases',
      'PostgreSQL advisory locks',
      'PostgreSQL transaction locks',
      'etcd',
      'ZooKeeper',
    ])
      expect(page).toContain(`\n## ${store}\n`);
  });
});
