import type { Timeline, TimelineSpan } from '../../api.ts';

/** Everything that was seen of one owner. */
export interface OwnerRow {
  readonly key: string;
  readonly owner: string | null;
  readonly spans: readonly TimelineSpan[];
}

export interface OwnerRows {
  readonly rows: readonly OwnerRow[];
  /** How many owners are left out. */
  readonly more: number;
  readonly fromMs: number;
  readonly toMs: number;
  /** When nothing was sampled, also before the first sample. */
  readonly gaps: Timeline['gaps'];
}

const ROWS_MAX = 24;
/** A shorter window would make one sample look like a long time. */
const WINDOW_MIN_MS = 30_000;
/** A longer one would make every bar a hair. */
const WINDOW_MAX_MS = 15 * 60_000;

/**
 * One row for each owner, in the order in which they were first seen. When there are too many, those
 * that were seen last are kept. A claim without an owner has a row of its own.
 */
export function ownerRowsOf(timeline: Timeline, nowMs: number): OwnerRows {
  const toMs = Math.max(nowMs, timeline.toMs ?? nowMs);
  const firstMs = Math.max(timeline.fromMs ?? toMs, toMs - WINDOW_MAX_MS);
  const fromMs = Math.min(firstMs, toMs - WINDOW_MIN_MS);
  const byOwner = new Map<string, TimelineSpan[]>();
  for (const span of timeline.spans) {
    if (span.toMs < fromMs) continue;
    const key = span.owner === null ? `claim ${span.id}` : `owner ${span.owner}`;
    const spans = byOwner.get(key);
    if (spans === undefined) byOwner.set(key, [span]);
    else spans.push(span);
  }
  const lastSeen = (spans: readonly TimelineSpan[]): number =>
    Math.max(...spans.map(({ toMs, state, isOpen }) => toMs + (isOpen && state === 'held' ? 1 : 0)));
  const all = [...byOwner].map(([key, spans]) => ({ key, owner: spans[0]?.owner ?? null, spans }));
  const kept = all.sort((a, b) => lastSeen(b.spans) - lastSeen(a.spans)).slice(0, ROWS_MAX);
  const began = (row: OwnerRow): number => Math.min(...row.spans.map(({ fromMs }) => fromMs));
  return {
    rows: kept.sort((a, b) => began(a) - began(b)),
    more: all.length - kept.length,
    fromMs,
    toMs,
    gaps: fromMs < firstMs ? [{ fromMs, toMs: firstMs }, ...timeline.gaps] : timeline.gaps,
  };
}
