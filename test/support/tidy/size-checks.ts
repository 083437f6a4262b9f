import ts from 'typescript5';
import { type Check, countLines, type TidyFile, within } from './file.ts';
import { findNodes, linesOf } from './syntax.ts';

const CODE = ['src', 'test', 'bench', 'scripts', 'examples'];
const FILE_MAX = 300;
const FUNCTION_MAX = 60;
const README_MAX = 150;
const DECISION_MAX = 40;

const lines = (count: number, line = 'a();'): string => `${line}\n`.repeat(count);

function lengthCheck(rule: string, max: number, path: string, covers: Check['covers']): Check {
  return {
    rule: `${rule} has at most ${max} lines`,
    covers,
    find: (file) => {
      const count = countLines(file.text);
      return count > max ? [`${file.path}: ${count} lines, ${max} is the most`] : [];
    },
    bad: { path, text: lines(max + 1) },
    good: { path, text: lines(max) },
  };
}

/** `describe` only groups; what it groups is measured. */
function isDescribe(node: ts.Node, source: ts.SourceFile): boolean {
  return ts.isCallExpression(node.parent) && /^describe\b/.test(node.parent.expression.getText(source));
}

const functionLength: Check = {
  rule: `a function has at most ${FUNCTION_MAX} lines`,
  covers: within(CODE, ['.ts', '.mjs']),
  find: (file) =>
    findNodes(file, (node, source) => {
      if (!ts.isFunctionLike(node) || isDescribe(node, source)) return null;
      const count = linesOf(node, source);
      return count > FUNCTION_MAX ? `a function of ${count} lines, ${FUNCTION_MAX} is the most` : null;
    }),
  bad: { path: 'src/a.ts', text: `const f = () => {\n${lines(FUNCTION_MAX - 1)}};\n` },
  good: {
    path: 'test/a.test.ts',
    text: `describe('a', () => {\n${lines(FUNCTION_MAX)}});\nfunction f() {\n${lines(FUNCTION_MAX - 2)}}\n`,
  },
};

const isDecision = (path: string): boolean => /^docs\/decisions\/.*\.md$/.test(path);

export const sizeChecks: readonly Check[] = [
  lengthCheck('a code file', FILE_MAX, 'src/a.ts', within(CODE, ['.ts', '.mjs', '.lua', '.sql'])),
  functionLength,
  lengthCheck('the README', README_MAX, 'README.md', (path) => path === 'README.md'),
  lengthCheck('a decision', DECISION_MAX, 'docs/decisions/a.md', isDecision),
];

/** Also a file name is read by people: lower case, words joined by hyphens. */
export const fileName: Check = {
  rule: 'files are named in kebab-case',
  covers: within([...CODE, 'docs']),
  find: ({ path }: TidyFile) =>
    path.split('/').every((part) => /^(?:README\.md|[a-z0-9]+(?:[-.][a-z0-9]+)*)$/.test(part))
      ? []
      : [`${path}: not in kebab-case`],
  bad: { path: 'src/stores/memoryStore.ts', text: '' },
  good: { path: 'test/support/memory-store.test.ts', text: '' },
};
