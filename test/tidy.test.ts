import { describe, expect, it } from 'vitest';
import { publicEntries } from './support/package/public-entries.ts';
import { clockSeam, codeChecks, noBarrels, SEAM_EXCEPTIONS } from './support/tidy/code-checks.ts';
import { type Check, repositoryFiles } from './support/tidy/file.ts';
import { namedPaths } from './support/tidy/path-checks.ts';
import { fileName, sizeChecks } from './support/tidy/size-checks.ts';
import { isThere, links, textChecks } from './support/tidy/text-checks.ts';
import { wordChecks } from './support/tidy/word-checks.ts';

const files = repositoryFiles();
const textOf = new Map(files.map((file) => [file.path, file.text]));
const entrySources = new Set(publicEntries().map((entry) => entry.source));

const checks: readonly Check[] = [
  ...sizeChecks,
  fileName,
  ...codeChecks,
  noBarrels(entrySources),
  ...textChecks,
  ...wordChecks,
  links((path) => textOf.get(path) ?? isThere(path)),
  namedPaths((path) => textOf.get(path) ?? isThere(path)),
];

describe('the repository is tidy', () => {
  for (const check of checks) {
    it(check.rule, () => {
      const problems = files.filter(({ path }) => check.covers(path)).flatMap((file) => check.find(file));
      expect(problems).toEqual([]);
    });
  }
});

describe('a tidy check', () => {
  it.each(checks)('finds a violation, and nothing else: $rule', (check) => {
    expect(check.covers(check.bad.path)).toBe(true);
    expect(check.find(check.bad)).toHaveLength(1);
    expect(check.find(check.good)).toEqual([]);
  });

  it.each(Object.keys(SEAM_EXCEPTIONS))('makes no unneeded exception: %s', (exception) => {
    const excepted = files.filter(({ path }) => path.startsWith(exception));
    expect(excepted.flatMap((file) => clockSeam.find(file))).not.toEqual([]);
  });

  it('reads the repository', () => {
    expect(textOf.get('src/index.ts')).toContain('createLocks');
    expect([...entrySources]).toContain('src/index.ts');
    expect([...entrySources].filter((path) => !textOf.has(path))).toEqual([]);
  });
});
