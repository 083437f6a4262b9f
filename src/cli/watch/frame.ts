import { wrapped } from '../cell.ts';
import { holderLines, showLines, waiterLines } from '../lock-text.ts';
import { copyable, duration, type Paint, printable, quoted } from '../text.ts';
import type { Eviction, Model } from './model.ts';
import { LOCKS_MAX, restMs } from './scanner.ts';
import type { Line } from './screen.ts';
import { tableLines } from './table.ts';

const HELP: readonly string[] = [
  'up down j k    move',
  'PgUp PgDn g G  move by a page, to an end',
  's              sort by the next column',
  'r              reverse the order',
  '/              filter by name or owner',
  'Enter          show the lock and its queue',
  'e              evict a claim, after a y',
  'Esc            back, or no filter',
  'q              back, or quit',
  '? h            this help',
];

const KEYS = {
  locks: '? help  q quit  / filter  s sort  Enter show  e evict',
  lock: 'q back  up down move  e evict',
  help: 'any key: back',
} as const;

const plain: Paint = (_style, text) => text;

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

/** Everything that the screen shows: a title, a page, and at the bottom the keys, or a question. */
export function frame(model: Model, prefix: string, size: Size, nowMs: number): Line[] {
  const bottom = bottomLines(model, size.columns);
  const height = Math.max(size.rows - 1 - bottom.length, 0);
  model.pageSize = Math.max(height - 1, 1);
  const page = pageLines(model, size.columns, height, nowMs).slice(0, height);
  const space = Array.from({ length: Math.max(height - page.length, 0) }, (): Line => ({ text: '' }));
  return [{ text: title(model, prefix), style: 'bold' }, ...page, ...space, ...bottom];
}

function title(model: Model, prefix: string): string {
  const parts = [prefix === '' ? 'holdfast' : `holdfast ${copyable(prefix)}*`];
  const { scan } = model;
  if (scan !== null) {
    const waiting = scan.views.filter((view) => view.waiters.length > 0).length;
    parts.push(
      `${scan.views.length}${scan.isTruncated ? ' (the first)' : ''} locks, ${waiting} with a queue`,
    );
    const everyMs = restMs(scan.tookMs) + scan.tookMs;
    if (everyMs > 2_000) parts.push(`every ${duration(everyMs)}`);
  }
  return parts.join('  ');
}

function pageLines(model: Model, columns: number, height: number, nowMs: number): Line[] {
  if (model.page === 'help') return HELP.map((text) => ({ text }));
  if (model.page === 'lock') return lockLines(model, height);
  const rows = model.rows(nowMs);
  const index = model.selectedRow(rows);
  if (rows.length === 0) return [{ text: emptyText(model), style: 'dim' }];
  const count = Math.max(height - 1, 1);
  // The selection stays away from the end of the page, where there is more to see.
  const first = Math.max(Math.min(index - Math.floor(count / 2), rows.length - count), 0);
  const { sort, isReversed } = model;
  const look = { sort, isReversed, columns, selected: rows[index] ?? null };
  return tableLines(rows.slice(first, first + count), rows, look);
}

function emptyText({ scan, filter }: Model): string {
  if (scan === null) return 'Reading the locks …';
  if (filter !== '') return 'No lock matches the filter.';
  return 'No lock is held or waited for.';
}

/** The page of one lock: as `holdfast show` prints it, with a marker at the selected claim. */
function lockLines(model: Model, height: number): Line[] {
  const { lock, claims } = model;
  if (lock === null) return [{ text: copyable(model.lockName), style: 'bold' }, { text: 'free' }];
  const selected = model.selectedClaim(claims);
  const lines: Line[] = [{ text: showLines(lock, plain)[0] ?? '', style: 'bold' }];
  let selectedLine = 0;
  for (const [n, claim] of claims.entries()) {
    const position = n - lock.holders.length;
    const texts = position < 0 ? holderLines(claim, plain) : waiterLines(claim, position + 1, plain);
    if (n === selected) selectedLine = lines.length;
    for (const [line, text] of texts.entries()) {
      const isMarked = n === selected && line === 0;
      lines.push(isMarked ? { text: `>${text.slice(1)}`, style: 'reverse' } : { text });
    }
  }
  const first = Math.max(Math.min(selectedLine - Math.floor(height / 2), lines.length - height), 0);
  return lines.slice(first);
}

function bottomLines(model: Model, columns: number): Line[] {
  if (model.question !== null) return questionLines(model.question, columns);
  const lines: Line[] = [];
  if (model.outage !== null) lines.push({ text: `Store out of reach: ${model.outage}`, style: 'red' });
  else if (model.scan?.isTruncated === true)
    lines.push({ text: `Only ${LOCKS_MAX} locks are read: give a PREFIX`, style: 'yellow' });
  if (model.message !== '') lines.push({ text: model.message });
  if (model.isTyping) lines.push({ text: `/${model.filter}_` });
  else if (model.filter !== '' && model.page === 'locks')
    lines.push({ text: `filter: ${model.filter}  (Esc: all)` });
  else lines.push({ text: KEYS[model.page], style: 'dim' });
  return lines;
}

/** Nothing is cut off, so that even a narrow terminal shows exactly what would be evicted. */
function questionLines({ name, claim, position }: Eviction, columns: number): Line[] {
  const parts = [
    `  lock ${quoted(name)}`,
    `  owner ${printable(claim.owner ?? '-')}`,
    `  claim ${copyable(claim.id)}`,
    position === null
      ? `  holds it, fence ${claim.fence ?? '-'}`
      : `  waits for it, ${position}. in the queue`,
  ];
  return [
    { text: 'Evict? y: yes, any other key: no', style: 'yellow' },
    ...parts.flatMap((part) => wrapped(part, columns, '    ')).map((text) => ({ text })),
  ];
}
