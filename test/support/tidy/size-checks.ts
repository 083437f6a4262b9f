import ts from 'typescript5';
import { type Check, countLines, type TidyFile, within } from './file.ts';
import { findNodes, linesOf } from './syntax.ts';
import { withoutFences } from './text-checks.ts';

const CODE = ['src', 'test', 'bench', 'scripts', 'examples'];
const FILE_MAX = 400;
const FUNCTION_MAX = 60;
const README_MAX = 150;
const DECISION_MAX = 40;
const CODE_WIDTH_MAX = 110;
const PROSE_WIDTH_MAX = 160;

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

/** `describe` only groups tests; each test is measured. */
function isDescribe(node: ts.Node, source: ts.SourceFile): boolean {
  return ts.isCallExpression(node.parent) && /^describe\b/.test(node.parent.expression.getText(source));
}

const functionLength: Check = {
  rule: `a function has at most ${FUNCTION_MAX} lines`,
  covers: within(CODE, ['.ts', '.tsx', '.mjs']),
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

function widthCheck(rule: string, max: number, path: string, covers: Check['covers']): Check {
  return {
    rule: `${rule} end within ${max} columns`,
    covers,
    find: ({ path: file, text }) =>
      text.split('\n').flatMap((line, n) => {
        const width = [...line.trimEnd()].length;
        return width > max ? [`${file}:${n + 1}: ${width} columns, ${max} is the most`] : [];
      }),
    bad: { path, text: `a\n${'x'.repeat(max + 1)}\n` },
    good: { path, text: `${'é'.repeat(max)}\n` },
  };
}

const isCode = within(CODE, ['.ts', '.tsx', '.css', '.mjs', '.lua', '.sql']);

/** Fenced code of a page may be wider, as a command that cannot be wrapped. */
const proseWidth = widthCheck('pages', PROSE_WIDTH_MAX, 'docs/a.md', (path) => path.endsWith('.md'));

const isDecision = (path: string): boolean => /^docs\/decisions\/(?!README).*\.md$/.test(path);

export const sizeChecks: readonly Check[] = [
  lengthCheck(
    'a code file',
    FILE_MAX,
    'src/a.ts',
    within(CODE, ['.ts', '.tsx', '.css', '.mjs', '.lua', '.sql']),
  ),
  functionLength,
  lengthCheck('the README', README_MAX, 'README.md', (path) => path === 'README.md'),
  widthCheck('code and comments', CODE_WIDTH_MAX, 'src/a.ts', isCode),
  { ...proseWidth, find: (file) => proseWidth.find({ ...file, text: withoutFences(file.text) }) },
  lengthCheck('a decision', DECISION_MAX, 'docs/decisions/a.md', isDecision),
];

/** Lower case, words joined by hyphens. */
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
