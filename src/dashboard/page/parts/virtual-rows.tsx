import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

interface Range {
  readonly from: number;
  readonly to: number;
  readonly height: number;
}

interface Props<T> {
  readonly items: readonly T[];
  readonly columns: number;
  /** Renders one `<tr>` of the height that the style sheet gives as `--row-height`. */
  readonly render: (item: T, index: number) => ComponentChildren;
  /** Tells which rows are rendered, for lists that are loaded in parts. */
  readonly onRange?: (from: number, to: number) => void;
}

/** Rows beyond the edges of the window: what the Tab and arrow keys reach before the next render. */
const BEYOND = 12;
/** The range moves in steps, so that most scroll events render nothing. */
const STEP = 6;
const FALLBACK_HEIGHT = 56;

/** The element in which the rows scroll; `null` when the page itself does. */
function scrollerOf(body: Element): Element | null {
  return body.closest('.scroller');
}

function rangeOf(body: HTMLElement, count: number): Range {
  const height =
    Number.parseFloat(getComputedStyle(body).getPropertyValue('--row-height')) || FALLBACK_HEIGHT;
  const view = scrollerOf(body);
  const top = body.getBoundingClientRect().top - (view === null ? 0 : view.getBoundingClientRect().top);
  const first = Math.floor(-top / height) - BEYOND;
  const from = Math.max(0, Math.min(first - (((first % STEP) + STEP) % STEP), count));
  const shown = Math.ceil((view?.clientHeight ?? window.innerHeight) / height) + 2 * BEYOND + STEP;
  return { from, to: Math.min(count, from + shown), height };
}

/** A table body that renders only the rows near the part that is in view. */
export function VirtualRows<T>({ items, columns, render, onRange }: Props<T>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [range, setRange] = useState<Range>({ from: 0, to: 0, height: FALLBACK_HEIGHT });
  const count = items.length;
  const measure = useCallback(() => {
    if (body.current === null) return;
    const next = rangeOf(body.current, count);
    setRange((last) =>
      last.from === next.from && last.to === next.to && last.height === next.height ? last : next,
    );
  }, [count]);
  useLayoutEffect(() => {
    measure();
    const scrolled = (body.current === null ? null : scrollerOf(body.current)) ?? window;
    scrolled.addEventListener('scroll', measure, { passive: true });
    window.addEventListener('resize', measure);
    return () => {
      scrolled.removeEventListener('scroll', measure);
      window.removeEventListener('resize', measure);
    };
  }, [measure]);
  useEffect(() => onRange?.(range.from, range.to), [range, onRange]);
  const to = Math.min(range.to, count);
  const from = Math.min(range.from, to);
  return (
    <tbody ref={body} onKeyDown={(event) => moveFocus(event, count, range.height)}>
      <Spacer columns={columns} height={from * range.height} />
      {items.slice(from, to).map((item, n) => render(item, from + n))}
      <Spacer columns={columns} height={(count - to) * range.height} />
    </tbody>
  );
}

function Spacer({ columns, height }: { columns: number; height: number }) {
  if (height <= 0) return null;
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: nothing in this row can have the focus.
    <tr class="spacer" aria-hidden="true">
      <td colSpan={columns} style={{ height: `${height}px` }} />
    </tr>
  );
}

/** The arrow keys, Home and End move from row to row, wherever in a row the focus is. */
function moveFocus(event: KeyboardEvent, count: number, height: number): void {
  const row = event.target instanceof Element ? event.target.closest('tr') : null;
  const body = row?.parentElement;
  if (row === null || !body || event.altKey || event.ctrlKey || event.metaKey) return;
  const index = Number(row.dataset.index);
  const moves: Record<string, number> = {
    ArrowDown: Math.min(index + 1, count - 1),
    ArrowUp: Math.max(index - 1, 0),
    Home: 0,
    End: count - 1,
  };
  const next = moves[event.key];
  if (next === undefined || Number.isNaN(index)) return;
  event.preventDefault();
  if (focusRow(body, next)) return;
  scrollTo(body, next * height);
  // The scroll event comes with the next frame, and the rows with the one after it.
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => focusRow(body, next))));
}

/** Brings a position within the rows to the middle of the view. */
function scrollTo(body: Element, offset: number): void {
  const view = scrollerOf(body);
  const top = body.getBoundingClientRect().top + offset;
  if (view === null) window.scrollTo({ top: window.scrollY + top - window.innerHeight / 2 });
  else view.scrollTop += top - view.getBoundingClientRect().top - view.clientHeight / 2;
}

function focusRow(body: Element, index: number): boolean {
  const target = body.querySelector<HTMLElement>(`tr[data-index="${index}"] :is(a, button)`);
  target?.focus();
  return target !== null;
}
