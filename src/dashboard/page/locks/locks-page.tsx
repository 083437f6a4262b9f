import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { LockSummary } from '../../api.ts';
import { keyOf, type Live } from '../data/live-list.ts';
import { announce } from '../parts/announcer.tsx';
import { plural, showCount } from '../parts/durations.ts';
import { Empty } from '../parts/empty.tsx';
import { useNarrow } from '../parts/media.ts';
import { hashOf, useWrittenHash } from '../parts/route.ts';
import { nowMs, useTimeStep } from '../parts/ticker.ts';
import { VirtualRows } from '../parts/virtual-rows.tsx';
import { Filters } from './filters.tsx';
import { NarrowRow, WideRow } from './lock-row.tsx';
import { type Selection, type SortKey, selectLocks, statesOf } from './select-locks.ts';

const SORTS: readonly SortKey[] = ['name', 'owner', 'age', 'lease', 'waiting'];
const STATES_EVERY_MS = 2000;
const STATES = ['held', 'contended', 'long-held', 'expiring'] as const;

function selectionIn(query: URLSearchParams): Selection {
  const text = (key: string): string => query.get(key) ?? '';
  return {
    search: text('search'),
    use: text('use'),
    kind: text('kind'),
    state: STATES.find((state) => state === text('state')) ?? '',
    sort: SORTS.find((sort) => sort === text('sort')) ?? 'waiting',
    isDescending: query.has('order') ? text('order') === 'descending' : !query.has('sort'),
  };
}

function queryOf(selection: Selection): Record<string, string> {
  const { search, use, kind, state, sort, isDescending } = selection;
  const isUsual = sort === 'waiting' && isDescending;
  const order = isUsual ? {} : { sort, order: isDescending ? 'descending' : 'ascending' };
  return { search, use, kind, state, ...order };
}

/** Every lock of the store: search, filters, and rows that follow the store. */
export function LocksPage({ live, query }: { live: Live; query: URLSearchParams }) {
  const [selection, setSelection] = useState(() => selectionIn(query));
  // A new query comes from a link or the history; the page itself only writes it.
  useEffect(() => setSelection(selectionIn(query)), [query]);
  useWrittenHash(hashOf('locks', queryOf(selection)));
  const change = (part: Partial<Selection>): void => setSelection((last) => ({ ...last, ...part }));
  const { locks: all } = live;
  // A hold grows old, or nears its end, without a message from the server.
  const step = useTimeStep(STATES_EVERY_MS);
  const selected = useMemo(() => selectLocks(all, selection, nowMs()), [all, selection, step]);
  const found = selected.locks.length;
  const isOwn = live.session?.listsOnlyOwn === true;
  useAnnouncedCount(found, selection);
  return (
    <>
      <div class="page-head">
        <h1>Locks</h1>
        <span class="muted">
          {showCount(live.total)}{' '}
          {isOwn ? 'held by this process: this store lists no others' : 'in the store'}
          {live.isTruncated && `, the first ${showCount(all.length)} are shown`}
        </span>
      </div>
      <Filters selection={selection} counts={selected.counts} change={change} />
      <Rows live={live} locks={selected.locks} selection={selection} change={change} />
    </>
  );
}

/** Says how many locks are found when the viewer has changed a filter, not when locks come and go. */
function useAnnouncedCount(found: number, selection: Selection): void {
  const first = useRef(true);
  const latest = useRef(found);
  latest.current = found;
  // Only a changed filter is announced.
  useEffect(() => {
    if (first.current) first.current = false;
    else announce(`${plural(latest.current, 'lock')} found`);
  }, [selection]);
}

interface RowsProps {
  readonly live: Live;
  readonly locks: readonly LockSummary[];
  readonly selection: Selection;
  readonly change: (part: Partial<Selection>) => void;
}

function Rows({ live, locks, selection, change }: RowsProps) {
  const isNarrow = useNarrow();
  if (live.status === 'connecting') return <Empty title="Reading the store …" />;
  if (live.locks.length === 0) {
    return (
      <Empty title="No locks">
        <p>
          {live.session?.listsOnlyOwn === true
            ? 'Advisory locks have keys, not names: only what the serving process holds is listed.'
            : 'A lock shows here as soon as a process acquires it or waits for it.'}
        </p>
      </Empty>
    );
  }
  if (locks.length === 0) {
    return (
      <Empty title="No lock matches">
        <button
          type="button"
          class="button"
          onClick={() => change({ search: '', use: '', kind: '', state: '' })}
        >
          Clear the filters
        </button>
      </Empty>
    );
  }
  const Row = isNarrow ? NarrowRow : WideRow;
  const now = nowMs();
  return (
    <div class="card">
      <table class={isNarrow ? 'locks narrow' : 'locks'} aria-label="Locks" aria-rowcount={locks.length + 1}>
        <Head isNarrow={isNarrow} selection={selection} change={change} />
        <VirtualRows
          items={locks}
          columns={isNarrow ? 2 : 5}
          render={(lock, index) => (
            <Row key={keyOf(lock)} lock={lock} states={statesOf(lock, now)} index={index} />
          )}
        />
      </table>
    </div>
  );
}

const COLUMNS: readonly { sort: SortKey; title: string; isEnd?: boolean; isFallingFirst?: boolean }[] = [
  { sort: 'name', title: 'Lock' },
  { sort: 'owner', title: 'Holder' },
  { sort: 'age', title: 'Held for', isEnd: true, isFallingFirst: true },
  { sort: 'lease', title: 'Lease left' },
  { sort: 'waiting', title: 'Waiting', isEnd: true, isFallingFirst: true },
];

type HeadProps = Pick<RowsProps, 'selection' | 'change'> & { isNarrow: boolean };

function Head({ isNarrow, selection, change }: HeadProps) {
  const shown = isNarrow ? COLUMNS.filter(({ sort }) => sort === 'name' || sort === 'waiting') : COLUMNS;
  return (
    <thead>
      <tr aria-rowindex={1}>
        {shown.map(({ sort, title, isEnd, isFallingFirst }) => {
          const isSorted = selection.sort === sort;
          const direction = selection.isDescending ? 'descending' : 'ascending';
          return (
            <th
              key={sort}
              scope="col"
              class={`${sort}-column ${isEnd ? 'end' : ''}`}
              aria-sort={isSorted ? direction : undefined}
            >
              <button
                type="button"
                onClick={() =>
                  change({ sort, isDescending: isSorted ? !selection.isDescending : isFallingFirst === true })
                }
              >
                {title}
                <svg viewBox="0 0 10 10" aria-hidden="true">
                  <path d={selection.isDescending ? 'M1 3h8L5 8z' : 'M1 7h8L5 2z'} />
                </svg>
              </button>
            </th>
          );
        })}
      </tr>
    </thead>
  );
}
