import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

/** `docs/safety.md` says of every promise which test shows it: its file, and “words of its title”. */
const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const page = read('docs/safety.md');
const cases = readdirSync(join(root, 'src/testing/cases'))
  .map((name) => read(`src/testing/cases/${name}`))
  .join('\n');
const grantRule = read('test/support/conformance/grant-rule.ts');

const NAMED = /`([\w/-]+)` “([^”]+)”/g;
/** The items of its lists, each as one line. */
const promises = page
  .split(/\n(?=- |\n)/)
  .filter((block) => block.startsWith('- '))
  .map((block) => block.replace(/\s+/g, ' '));
const named = promises.flatMap((promise) =>
  [...promise.matchAll(NAMED)].map(([, file = '', title = '']) => ({ path: `test/${file}.test.ts`, title })),
);

/** Cases that several files share count for each of them. A title that is split is put together. */
function textOf(path: string): string {
  const own = read(path);
  const shared = path.startsWith('test/conformance/') ? cases : '';
  const rule = own.includes('/conformance/grant-rule.ts') ? grantRule : '';
  return (own + shared + rule).replace(/'\s*\+\s*'/g, '');
}

describe('the page on safety', () => {
  it('names tests that exist, by words of their titles', () => {
    const missing = named.filter(({ path, title }) => !textOf(path).includes(title));
    expect(missing).toEqual([]);
    expect(named.length).toBeGreaterThan(60);
  });

  it('has a test for every promise, or says that there is nothing to show', () => {
    const bare = promises.filter(
      (each) => each.search(NAMED) < 0 && !/nothing to show|shown there/i.test(each),
    );
    expect(bare).toEqual([]);
    expect(promises.length).toBeGreaterThan(100);
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
      'MySQL and MariaDB',
      'etcd',
      'ZooKeeper',
    ])
      expect(page).toContain(`\n## ${store}\n`);
  });
});
