import { join } from 'node:path';
import ts from 'typescript5';
import { publicEntries } from './public-entries.ts';
import { repository } from './staged-package.ts';

export interface PublicApi {
  /** Every public name with its signature, in a form that changes only when they do. */
  readonly text: string;
  /** Exported names without documentation. */
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
  for (const { entry, path } of files) reader.readExports(entry.specifier, program.getSourceFile(path));
  const sections = files.map(({ entry }) => reader.describeEntry(entry.specifier));
  return { text: sections.join('\n'), undocumented: reader.undocumented };
}

class ApiReader {
  readonly undocumented: string[] = [];
  readonly #checker: ts.TypeChecker;
  readonly #folder: string;
  readonly #printer = ts.createPrinter({ removeComments: true });
  readonly #exports = new Map<string, ReadonlyMap<string, ts.Symbol>>();
  /**
   * The entry under which a declaration stands: the first that exports it or, when none does, the
   * first that uses it.
   */
  readonly #home = new Map<ts.Symbol, string>();

  constructor(checker: ts.TypeChecker, folder: string) {
    this.#checker = checker;
    this.#folder = folder;
  }

  readExports(specifier: string, source: ts.SourceFile | undefined): void {
    const module = source && this.#checker.getSymbolAtLocation(source);
    if (module === undefined) throw new Error(`${specifier} exports nothing`);
    const exported = this.#checker
      .getExportsOfModule(module)
      .map((each) => [each.name, this.#resolve(each)] as const);
    this.#exports.set(specifier, new Map(exported));
    for (const [name, symbol] of exported) {
      if (!this.#home.has(symbol)) this.#home.set(symbol, specifier);
      if (symbol.getDocumentationComment(this.#checker).length === 0)
        this.undocumented.push(`${specifier}: ${name}`);
    }
  }

  describeEntry(specifier: string): string {
    const exported = this.#exports.get(specifier) ?? new Map<string, ts.Symbol>();
    const lines = [...exported]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, symbol]) => this.#describe(specifier, name, symbol));
    const inner = this.#reachable([...exported.values()]).filter((symbol) => !this.#home.has(symbol));
    for (const symbol of inner) this.#home.set(symbol, specifier);
    const innerLines = inner.map((symbol) => this.#describe(specifier, symbol.name, symbol)).sort();
    const rest =
      innerLines.length === 0 ? [] : ['', `## used by ${specifier}, not exported`, '', ...innerLines];
    return [`# ${specifier}`, '', ...lines, ...rest, ''].join('\n');
  }

  #resolve(symbol: ts.Symbol): ts.Symbol {
    return symbol.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol;
  }

  #describe(specifier: string, name: string, symbol: ts.Symbol): string {
    const home = this.#home.get(symbol);
    if (home !== specifier) return `${name}: as in ${home}`;
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
