import ts from 'typescript5';
import type { TidyFile } from './file.ts';

/**
 * Visits every node of a file, outermost first. Parsing does not confuse comments and strings with code.
 */
export function findNodes(
  file: TidyFile,
  problemOf: (node: ts.Node, source: ts.SourceFile) => string | null,
): string[] {
  const source = parse(file);
  const problems: string[] = [];
  const visit = (node: ts.Node): void => {
    const problem = problemOf(node, source);
    if (problem !== null) problems.push(`${file.path}:${lineOf(node, source)}: ${problem}`);
    ts.forEachChild(node, visit);
  };
  ts.forEachChild(source, visit);
  return problems;
}

export function parse(file: TidyFile): ts.SourceFile {
  return ts.createSourceFile(file.path, file.text, ts.ScriptTarget.Latest, true);
}

function lineOf(node: ts.Node, source: ts.SourceFile): number {
  return source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1;
}

export function linesOf(node: ts.Node, source: ts.SourceFile): number {
  const end = source.getLineAndCharacterOfPosition(node.getEnd()).line;
  return end - lineOf(node, source) + 2;
}

/** The module that an import, export or `import()` names. */
export function moduleNamed(node: ts.Node): string | null {
  const named =
    ts.isImportDeclaration(node) || ts.isExportDeclaration(node)
      ? node.moduleSpecifier
      : ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword
        ? node.arguments[0]
        : ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)
          ? node.argument.literal
          : undefined;
  return named !== undefined && ts.isStringLiteralLike(named) ? named.text : null;
}
