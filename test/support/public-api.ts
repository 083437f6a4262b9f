import { join } from 'node:path';
import ts from 'typescript5';
import { publicEntries } from './public-entries.ts';
import { repository } from './staged-package.ts';

export interface PublicApi {
  /** Every public name with its signature, in a form that changes only when they do. */
  readonly text: string;
  /** Exported names without a word on what they promise. */
  readonly undocumented: readonly string[];
}

/** Reads the public surface from the compiled types of a staged package. */
export function readPublicApi(folder: string): PublicApi {
  const files = publicEntries().map((entry) => ({ entry, path: join(folder, `${entry.built}.d.ts`) }));
  const program = ts.createProgram(
    files.map(({ path }) => path),
    {
      module: ts.ModuleKind.NodeNext,
      target: ts.ScriptTarget.ES2022,
      lib: ['lib.es2023.d.ts'],
      types: ['node'],
      typeRoots: [join(repository, 'node_modules/@types')],
      skipLibCheck: true,
    },
  );
  const reader = new ApiReader(program.getTypeChecker(), folder);
  const sections = files.map(({ entry, path }) =>
    reader.readEntry(entry.specifier, program.getSourceFile(path)),
  );
  return { text: sections.join('\n'), undocumented: reader.undocumented };
}

class ApiReader {
  readonly undocumented: string[] = [];
  readonly #checker: ts.TypeChecker;
  readonly #folder: string;
  readonly #printer = ts.createPrinter({ removeComments: true });
  /** Under which entry a declaration was printed first. */
  readonly #printed = new Map<ts.Symbol, string>();

  constructor(checker: ts.TypeChecker, folder: string) {
    this.#checker = checker;
    this.#folder = folder;
  }

  readEntry(specifier: string, source: ts.SourceFile | undefined): string {
    const module = source && this.#checker.getSymbolAtLocation(source);
    if (module === undefined) throw new Error(`${specifier} exports nothing`);
    const exported = new Map(
      this.#checker.getExportsOfModule(module).map((each) => [each.name, this.#resolve(each)] as const),
    );
    for (const [name, symbol] of exported) {
      if (symbol.getDocumentationComment(this.#checker).length === 0)
        this.undocumented.push(`${specifier}: ${name}`);
    }
    const names = [...exported.keys()].sort();
    const lines = names.map((name) => this.#describe(specifier, name, exported.get(name)));
    const inner = this.#reachable([...exported.values()]).filter((symbol) => !this.#printed.has(symbol));
    const innerLines = inner.map((symbol) => this.#describe(specifier, symbol.name, symbol)).sort();
    const rest =
      innerLines.length === 0 ? [] : ['', `## used by ${specifier}, not exported`, '', ...innerLines];
    return [`# ${specifier}`, '', ...lines, ...rest, ''].join('\n');
  }

  #resolve(symbol: ts.Symbol): ts.Symbol {
    return symbol.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol;
  }

  #describe(specifier: string, name: string, symbol: ts.Symbol | undefined): string {
    const before = symbol && this.#printed.get(symbol);
    if (before !== undefined && before !== specifier) return `${name}: as in ${before}`;
    if (symbol === undefined) return name;
    this.#printed.set(symbol, specifier);
    const text = (symbol.declarations ?? []).map((each) => this.#print(each)).join('\n');
    return name === symbol.name ? text : `${name}: ${text}`;
  }

  #print(declaration: ts.Declaration): string {
    const node = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration;
    const text = this.#printer.printNode(ts.EmitHint.Unspecified, node, node.getSourceFile());
    return text.replace(/^(?:export |declare )+/, '').replace(/^ *(?:#private|private [^\n]*);\n/gm, '');
  }

  /** What the signatures mention without exporting it is a part of the surface too. */
  #reachable(from: readonly ts.Symbol[]): ts.Symbol[] {
    const seen = new Set(from);
    const visit = (node: ts.Node): void => {
      const named = nameIn(node);
      const symbol = named && this.#checker.getSymbolAtLocation(named);
      if (symbol !== undefined) seen.add(this.#resolve(symbol));
      ts.forEachChild(node, visit);
    };
    // A set that grows while it is walked: each is visited once.
    for (const symbol of seen) {
      if (this.#isOurs(symbol)) for (const declaration of symbol.declarations ?? []) visit(declaration);
      else seen.delete(symbol);
    }
    return [...seen];
  }

  #isOurs(symbol: ts.Symbol): boolean {
    const [declaration] = symbol.declarations ?? [];
    return (
      declaration !== undefined &&
      !ts.isTypeParameterDeclaration(declaration) &&
      declaration.getSourceFile().fileName.startsWith(this.#folder)
    );
  }
}

/** The name of a type that a node refers to. */
function nameIn(node: ts.Node): ts.Node | undefined {
  if (ts.isTypeReferenceNode(node)) return node.typeName;
  if (ts.isExpressionWithTypeArguments(node)) return node.expression;
  if (ts.isTypeQueryNode(node)) return node.exprName;
  return ts.isImportTypeNode(node) ? node.qualifier : undefined;
}
