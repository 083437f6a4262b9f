import ts from 'typescript5';
import { at, type Check, within } from './file.ts';
import { findNodes, moduleNamed, parse } from './syntax.ts';

const EVERYWHERE = ['src', 'test', 'bench', 'scripts', 'examples'];

/** The core takes time, timers and randomness from its Clock, so that all of it can run in a simulation. */
const UNSEAMED = new Set(['Date.now', 'performance.now', 'Math.random', 'setTimeout', 'setInterval']);

/** The files and folders that may bypass the Clock, and why. */
export const SEAM_EXCEPTIONS: Readonly<Record<string, string>> = {
  'src/clock.ts': 'it is the seam',
  'src/dashboard/page/': 'it runs in a browser, with the clock of the browser',
  'src/cli/': 'a program for people: it waits for real processes and paints real terminals',
  'src/torture/': 'it runs real servers and processes, which go by the time of the host',
  'src/testing/store-case.ts': 'names must differ between runs, also under a virtual clock',
};

/** The callee of a call, without `globalThis`. */
function calleeOf(node: ts.Node, source: ts.SourceFile): string {
  if (ts.isNewExpression(node)) return `new ${node.expression.getText(source)}`;
  return ts.isCallExpression(node)
    ? node.expression.getText(source).replace(/^(globalThis|global)\./, '')
    : '';
}

export const clockSeam: Check = {
  rule: 'time, timers and chance come through the clock',
  covers: (path) =>
    within(['src'], ['.ts', '.tsx'])(path) &&
    !Object.keys(SEAM_EXCEPTIONS).some((each) => path.startsWith(each)),
  find: (file) =>
    findNodes(file, (node, source) => {
      const callee = calleeOf(node, source);
      return UNSEAMED.has(callee) ? `${callee}() goes round the clock` : null;
    }),
  bad: { path: 'src/a.ts', text: 'export const late = (at: number) => globalThis.setTimeout(() => {}, at);' },
  good: {
    path: 'src/a.ts',
    text: '// Not Date.now().\nexport const now = (clock: Clock) => clock.wallMs();',
  },
};

const noAny: Check = {
  rule: 'no any, and no error silenced',
  covers: within(EVERYWHERE, ['.ts', '.tsx']),
  find: (file) => [
    ...findNodes(file, (node) => (node.kind === ts.SyntaxKind.AnyKeyword ? 'any' : null)),
    ...[...file.text.matchAll(/@ts-(?:ignore|nocheck)\b/g)].map((match) => at(file, match.index, match[0])),
  ],
  bad: { path: 'src/a.ts', text: 'export const f = (a: readonly any[]) => a;' },
  good: { path: 'src/a.ts', text: '// any\nexport const any = "any";' },
};

const SELECTIVE =
  /^(?:(?:it|test|describe)(?:\.\w+)*\.(?:only|skip|todo|skipIf|runIf|fails)|[xf](?:it|test|describe))$/;

const wholeSuites: Check = {
  rule: 'no test is left out, singled out or put off',
  covers: within(['test'], ['.ts']),
  find: (file) =>
    findNodes(file, (node, source) => {
      const callee = calleeOf(node, source);
      return SELECTIVE.test(callee) ? callee : null;
    }),
  bad: { path: 'test/a.test.ts', text: 'describe.concurrent.only("a", () => {});' },
  good: { path: 'test/a.test.ts', text: 'it.each([1])("skips only what it must", (n) => list.skip(n));' },
};

/** Vitest loses the test of an `expect.poll` when a concurrent test ends first: `eventually` does not. */
const noConcurrentPoll: Check = {
  rule: 'no expect.poll beside concurrent tests',
  covers: within(['test'], ['.test.ts']),
  find: (file) =>
    /\b(?:describe|it|test)\.concurrent\b/.test(file.text)
      ? findNodes(file, (node, source) => (calleeOf(node, source) === 'expect.poll' ? 'expect.poll' : null))
      : [],
  bad: {
    path: 'test/a.test.ts',
    text: 'it.concurrent("a", async () => {\n  await expect.poll(() => 1).toBe(1);\n});',
  },
  good: { path: 'test/a.test.ts', text: 'it("a", async () => {\n  await expect.poll(() => 1).toBe(1);\n});' },
};

const noDefault: Check = {
  rule: 'no default exports',
  covers: within(['src'], ['.ts', '.tsx']),
  find: (file) =>
    findNodes(file, (node) => {
      const isDefault =
        (ts.isExportAssignment(node) && !node.isExportEquals) ||
        node.kind === ts.SyntaxKind.DefaultKeyword ||
        (ts.isExportSpecifier(node) && node.name.text === 'default');
      return isDefault && !ts.isDefaultClause(node) ? 'a default export' : null;
    }),
  bad: { path: 'src/a.ts', text: 'export default class A {}' },
  good: { path: 'src/a.ts', text: 'switch (a) {\n  default: b();\n}\nexport const byDefault = 1;' },
};

const withExtension: Check = {
  rule: 'a relative import names the file',
  covers: within(EVERYWHERE, ['.ts', '.tsx']),
  find: (file) =>
    findNodes(file, (node) => {
      const named = moduleNamed(node);
      return named !== null && /^\.{1,2}(?:\/|$)/.test(named) && !/\.(?:ts|tsx|mjs|json|css)$/.test(named)
        ? `'${named}' has no extension`
        : null;
    }),
  bad: { path: 'src/a.ts', text: "export const load = () => import('./b');" },
  good: { path: 'src/a.ts', text: "import { b } from './b.ts';\nimport { c } from 'c';" },
};

/** `entries`: the sources of the public entries, which may consist of re-exports. */
export function noBarrels(entries: ReadonlySet<string>): Check {
  return {
    rule: 'no barrel files but the public entries',
    covers: (path) => within(['src'], ['.ts', '.tsx'])(path) && !entries.has(path),
    find: (file) => {
      const statements = parse(file).statements;
      const passedOn = statements.filter((each) => ts.isExportDeclaration(each) && each.moduleSpecifier);
      const isWild = passedOn.some((each) => ts.isExportDeclaration(each) && each.exportClause === undefined);
      const isBarrel = isWild || (statements.length > 0 && passedOn.length === statements.length);
      return isBarrel ? [`${file.path}: only passes on what others export`] : [];
    },
    bad: {
      path: 'src/hold/barrel.ts',
      text: "export { a } from './a.ts';\nexport type { B } from './b.ts';",
    },
    good: { path: 'src/hold/a.ts', text: "import { b } from './b.ts';\nexport const a = b;" },
  };
}

export const codeChecks: readonly Check[] = [
  clockSeam,
  noAny,
  wholeSuites,
  noConcurrentPoll,
  noDefault,
  withExtension,
];
