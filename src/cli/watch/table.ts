import { fitted, textWidth } from '../cell.ts';
import type { Row, Sort } from './rows.ts';
import type { Line } from './screen.ts';

interface Column {
  readonly title: string;
  readonly sort: Sort | null;
  readonly align?: 'right';
  /** A column of text may be cut down to this. Columns of numbers are never cut. */
  readonly minWidth?: number;
  /** In a narrow terminal the column with the greatest number is left out first; 0: never. */
  readonly leaveOut: number;
  text(row: Row): string;
}

const COLUMNS: readonly Column[] = [
  { title: 'LOCK', sort: 'name', minWidth: 12, leaveOut: 0, text: (row) => row.name },
  { title: 'KIND', sort: null, leaveOut: 4, text: (row) => row.kind },
  { title: 'HELD', sort: null, align: 'right', leaveOut: 2, text: (row) => `${row.holders}` },
  { title: 'QUEUE', sort: 'queue', align: 'right', leaveOut: 0, text: (row) => `${row.queue}` },
  { title: 'AGE', sort: 'age', align: 'right', leaveOut: 0, text: (row) => brief(row.ageMs) },
  { title: 'LEASE', sort: 'lease', align: 'right', leaveOut: 0, text: (row) => brief(row.leaseMs) },
  { title: 'FENCE', sort: 'fence', align: 'right', leaveOut: 3, text: (row) => `${row.fence ?? '-'}` },
  { title: 'OWNER', sort: 'owner', minWidth: 10, leaveOut: 1, text: (row) => row.owner },
];

const GAP = '  ';
const MARKER_WIDTH = 2;

/** A duration in at most five columns: `850ms`, `59s`, `12m`, `3h`, `5d`. */
export function brief(ms: number | null): string {
  if (ms === null) return '-';
  if (ms < 1_000) return `${Math.floor(ms)}ms`;
  if (ms < 60_000) return `${Math.floor(ms / 1_000)}s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)}m`;
  if (ms < 172_800_000) return `${Math.floor(ms / 3_600_000)}h`;
  return `${Math.floor(ms / 86_400_000)}d`;
}

export interface TableLook {
  readonly sort: Sort;
  readonly isReversed: boolean;
  readonly selected: Row | null;
  readonly columns: number;
}

/**
 * The heading, and a line for each row that is shown. The widths are those of all rows, so that
 * scrolling moves nothing.
 */
export function tableLines(shown: readonly Row[], all: readonly Row[], look: TableLook): Line[] {
  const widths = widthsFor(all, Math.max(look.columns - MARKER_WIDTH, 1));
  const line = (textOf: (column: Column) => string): string =>
    [...widths].map(([column, width]) => fitted(textOf(column), width, column.align)).join(GAP);
  return [
    { text: `  ${line((column) => titleOf(column, look))}`, style: 'bold' },
    ...shown.map((row): Line => {
      if (row === look.selected) return { text: `> ${line((column) => column.text(row))}`, style: 'reverse' };
      const text = `  ${line((column) => column.text(row))}`;
      return row.queue > 0 ? { text, style: 'yellow' } : { text };
    }),
  ];
}

/** The column that the rows are sorted by has an arrow. */
function titleOf({ title, sort }: Column, look: TableLook): string {
  if (sort !== look.sort) return title;
  return title + (look.isReversed ? '↑' : '↓');
}

/** Leaves out columns, then cuts those that may be cut, until all fit. */
function widthsFor(rows: readonly Row[], columns: number): Map<Column, number> {
  const natural = new Map(
    COLUMNS.map((column) => {
      // With the arrow of the sort, so that sorting moves nothing.
      const title = column.title.length + (column.sort === null ? 0 : 1);
      return [column, rows.reduce((most, row) => Math.max(most, textWidth(column.text(row))), title)];
    }),
  );
  let kept = [...COLUMNS];
  const least = (column: Column): number => Math.min(natural.get(column) ?? 0, column.minWidth ?? Infinity);
  const excess = (width: (column: Column) => number): number =>
    kept.reduce((sum, column) => sum + width(column), (kept.length - 1) * GAP.length) - columns;
  for (
    let turn = Math.max(...COLUMNS.map(({ leaveOut }) => leaveOut));
    turn > 0 && excess(least) > 0;
    turn -= 1
  )
    kept = kept.filter(({ leaveOut }) => leaveOut !== turn);
  const widths = new Map(kept.map((column) => [column, least(column)]));
  // The columns of text share what is left, the name first.
  for (const column of kept) {
    const spare = -excess((each) => widths.get(each) ?? 0);
    const own = widths.get(column) ?? 0;
    widths.set(column, Math.max(Math.min(natural.get(column) ?? 0, own + spare), 1));
  }
  return widths;
}
