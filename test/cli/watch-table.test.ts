import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fitted, textWidth } from '../../src/cli/cell.ts';
import { Changes } from '../../src/cli/watch/changes.ts';
import { filtered, rowsOf, sorted } from '../../src/cli/watch/rows.ts';
import { restMs } from '../../src/cli/watch/scanner.ts';
import { brief, tableLines } from '../../src/cli/watch/table.ts';
import type { ClaimView, LockView } from '../../src/index.ts';

const claim = (id: string, more: Partial<ClaimView> = {}): ClaimView => ({
  id,
  owner: id,
  fence: 1n,
  mode: { kind: 'exclusive' },
  heldForMs: 1_000,
  expiresInMs: 30_000,
  metadata: null,
  ...more,
});

const lock = (name: string, holders: ClaimView[], waiters: ClaimView[] = []): LockView => ({
  name,
  use: 'lock',
  done: false,
  kind: 'exclusive',
  permits: null,
  holders,
  waiters,
});

const views = [
  lock('b', [claim('web-1', { heldForMs: 9_000, fence: 7n })], [claim('w')]),
  lock('a', [claim('web-2', { heldForMs: null, expiresInMs: null, fence: null })]),
  lock('c', [claim('db-1', { expiresInMs: 5_000, fence: 9n }), claim('db-2', { heldForMs: 2_000 })]),
];

describe('the rows of the live table', () => {
  it('show the age of the oldest hold, the first lease to end, and the greatest fence', () => {
    expect(rowsOf(views, 2_500)).toMatchObject([
      { name: 'b', queue: 1, ageMs: 11_500, leaseMs: 27_500, fence: 7n, owner: 'web-1' },
      { name: 'a', queue: 0, ageMs: null, leaseMs: null, fence: null, owner: 'web-2' },
      { name: 'c', holders: 2, ageMs: 4_500, leaseMs: 2_500, fence: 9n, owner: 'db-1 +1' },
    ]);
    expect(rowsOf(views, 60_000)[2]?.leaseMs).toBe(0);
  });

  it('are sorted worst first, or reversed, and filtered by name or owner', () => {
    const rows = rowsOf(views, 0);
    const names = (sort: Parameters<typeof sorted>[1], isReversed = false): string =>
      sorted(rows, sort, isReversed)
        .map(({ name }) => name)
        .join('');
    expect(names('name')).toBe('abc');
    expect(names('name', true)).toBe('cba');
    expect(names('queue')).toBe('bac');
    expect(names('age')).toBe('bca');
    expect(names('lease')).toBe('cba');
    expect(names('fence')).toBe('cba');
    expect(names('owner')).toBe('cba');
    expect(filtered(rows, 'WEB').map(({ name }) => name)).toEqual(['b', 'a']);
    expect(filtered(rows, 'c').map(({ name }) => name)).toEqual(['c']);
  });

  it('fit every width from 40 columns on, whatever the names are', () => {
    const text = fc.oneof(
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }),
      fc.constantFrom('漢字', 'é😀'),
    );
    fc.assert(
      fc.property(
        fc.array(fc.tuple(text, text), { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 40, max: 130 }),
        (names, columns) => {
          const rows = rowsOf(
            names.map(([name, owner]) => lock(name, [claim('i', { owner, fence: 1794814728151000n })])),
            0,
          );
          const look = { sort: 'name', isReversed: false, columns, selected: rows[0] ?? null } as const;
          const widths = tableLines(rows, rows, look).map((line) => textWidth(line.text));
          expect(Math.max(...widths)).toBeLessThanOrEqual(columns);
          expect(new Set(widths).size).toBe(1);
        },
      ),
    );
  });

  it('print short durations in cells of exactly the given width', () => {
    expect([null, 0, 999.9, 59_999, 3_599_000, 172_799_000, 9e8].map(brief)).toEqual([
      '-',
      '0ms',
      '999ms',
      '59s',
      '59m',
      '47h',
      '10d',
    ]);
    expect(fitted('abc', 5)).toBe('abc  ');
    expect(fitted('7', 3, 'right')).toBe('  7');
    expect(fitted('abcdef', 4)).toBe('abc…');
    expect(fitted('漢字漢', 4)).toBe('漢… ');
    expect(textWidth('e\u0301漢😀')).toBe(5);
  });
});

describe('the changes between two scans', () => {
  const changeTexts = (changes: Changes, seen: readonly LockView[], isTruncated = false): string[] =>
    changes.next(seen, isTruncated).map(({ change, name, claim: of }) => `${change} ${name} ${of?.id}`);

  it('list each claim that appeared, was granted or disappeared, and no claim that was only renewed', () => {
    const changes = new Changes();
    expect(changeTexts(changes, [lock('a', [claim('1')], [claim('2')])])).toEqual([
      'held a 1',
      'waiting a 2',
    ]);
    expect(changeTexts(changes, [lock('a', [claim('1', { heldForMs: 5_000 })], [claim('2')])])).toEqual([]);
    expect(changeTexts(changes, [lock('a', [claim('2')])])).toEqual(['gone a 1', 'held a 2']);
    expect(changeTexts(changes, [])).toEqual(['gone a 2']);
  });

  it('report no claim as gone after an incomplete scan', () => {
    const changes = new Changes();
    changeTexts(changes, [lock('a', [claim('1')]), lock('b', [claim('2')])]);
    expect(changeTexts(changes, [lock('a', [claim('1')])], true)).toEqual([]);
    expect(changeTexts(changes, [lock('a', [claim('1')])])).toEqual(['gone b 2']);
  });
});

it('the pause after a scan is four times its duration, at least 1 s and at most 1 min', () => {
  expect([0, 100, 250, 2_000, 20_000].map(restMs)).toEqual([1_000, 1_000, 1_000, 8_000, 60_000]);
});
