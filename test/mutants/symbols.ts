import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript5';
import type { Mutant } from './mutant.ts';

/** The sources of the mutants: the core and the memory store. */
const FOLDERS = ['src', 'src/hold', 'src/store', 'src/primitives', 'src/util', 'src/stores/memory'];

/** Where a symbol is defined: its file, the text of that file, and the ranges of symbol and body. */
interface Place {
  readonly file: string;
  readonly text: string;
  readonly symbol: readonly [start: number, end: number];
  readonly body: readonly [start: number, end: number] | null;
}

/** Every function and class member of the sources, by its name. */
export function symbolsIn(root: string): Map<string, Place[]> {
  const symbols = new Map<string, Place[]>();
  for (const folder of FOLDERS) {
    const names = readdirSync(join(root, folder)).filter((name) => name.endsWith('.ts'));
    for (const name of names) collect(join(root, folder, name), symbols);
  }
  return symbols;
}

function collect(file: string, symbols: Map<string, Place[]>): void {
  const text = readFileSync(file, 'utf8');
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const add = (name: string, node: ts.Node, body: ts.Node | undefined): void => {
    const places = symbols.get(name) ?? [];
    const range = (of: ts.Node): readonly [number, number] => [of.getStart(source), of.getEnd()];
    places.push({ file, text, symbol: range(node), body: body === undefined ? null : range(body) });
    symbols.set(name, places);
  };
  for (const statement of source.statements) {
    if (ts.isFunctionDeclaration(statement) && statement.name !== undefined)
      add(statement.name.text, statement, statement.body);
    if (!ts.isClassDeclaration(statement)) continue;
    for (const member of statement.members) {
      const body = 'body' in member ? (member.body as ts.Node | undefined) : undefined;
      const name = ts.isConstructorDeclaration(member) ? 'constructor' : member.name?.getText(source);
      if (name !== undefined) add(`${statement.name?.text}.${name}`, member, body);
    }
  }
}

/** The file with the defect in it. Throws when the mutant does not match exactly once. */
export function mutated(
  symbols: Map<string, Place[]>,
  { symbol, find, replace }: Mutant,
): { readonly file: string; readonly text: string } {
  const places = symbols.get(symbol) ?? [];
  const [place] = places;
  if (place === undefined || places.length > 1)
    throw new Error(`${symbol} is defined ${places.length} times, not once`);
  const { file, text } = place;
  if (find === undefined) {
    if (place.body === null) throw new Error(`${symbol} has no body to replace`);
    const [start, end] = place.body;
    return { file, text: `${text.slice(0, start)}{\n${replace}\n}${text.slice(end)}` };
  }
  const [start, end] = place.symbol;
  const parts = text.slice(start, end).split(find);
  if (parts.length !== 2) throw new Error(`${symbol} has ${JSON.stringify(find)} ${parts.length - 1} times`);
  return { file, text: text.slice(0, start) + parts.join(replace) + text.slice(end) };
}
