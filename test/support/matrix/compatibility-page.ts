import type { Outcome } from './cells.ts';

/** One row of a table: what was tried, and the outcome in each column. */
export interface Row {
  readonly titles: readonly string[];
  readonly outcomes: ReadonlyMap<string, Outcome>;
}

export interface MatrixTable {
  /** The heads of the titles of a row. */
  readonly heads: readonly string[];
  readonly columns: readonly string[];
  readonly rows: readonly Row[];
}

/** What one run of the matrix has found. */
export interface Findings {
  /** `2026-11-16`. */
  readonly date: string;
  /** What the tables do not show: `Redis 7.0.15`. */
  readonly versions: readonly string[];
  readonly tables: readonly MatrixTable[];
}

const BEGIN = '<!-- written by `npm run matrix -- --write` -->';
const END = '<!-- end -->';
const WIDTH_MAX = 158;

/** A Markdown table with padded cells. */
export function markdownTable(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = heads.map((head, n) => Math.max(head.length, 3, ...rows.map((row) => row[n]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, n) => cell.padEnd(widths[n] ?? 0)).join(' | ')} |`;
  return [line(heads), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
}

/** A list with commas, as one sentence. */
function wrapped(parts: readonly string[]): string {
  const lines: string[] = [];
  for (const [n, part] of parts.entries()) {
    const text = `${part}${n === parts.length - 1 ? '.' : ','}`;
    const longer = n === 0 ? text : `${lines.at(-1)} ${text}`;
    if (n > 0 && longer.length <= WIDTH_MAX) lines.pop();
    lines.push(longer.length <= WIDTH_MAX ? longer : text);
  }
  return lines.join('\n');
}

/** The generated part of the page. */
export function compatibilityText({ date, versions, tables }: Findings): string {
  const parts = tables.map(({ heads, columns, rows }) =>
    markdownTable(
      [...heads, ...columns],
      rows.map(({ titles, outcomes }) => [
        ...titles,
        ...columns.map((column) => outcomes.get(column)?.verdict ?? ''),
      ]),
    ),
  );
  const [first = '', ...others] = versions;
  return [wrapped([`Run on ${date} with ${first}`, ...others]), ...parts].join('\n\n');
}

/** The page with another generated part. Throws when the page has no room for it. */
export function withFindings(page: string, findings: Findings): string {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`the page has no ${BEGIN}`);
  return `${page.slice(0, from)}${BEGIN}\n\n${compatibilityText(findings)}\n\n${page.slice(to)}`;
}
