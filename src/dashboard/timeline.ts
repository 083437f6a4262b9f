import { storedName } from '../use.ts';
import type { ClaimView, LockView } from '../view.ts';
import type { Timeline, TimelineSpan } from './api.ts';
import type { ReadLock } from './scan.ts';

/** Of one lock. */
const CLAIMS_MAX = 50;
const SPANS_MAX = 300;
const CHANGES_MAX = 300;
const GAPS_MAX = 50;
/** Of all locks together. Beyond it, locks that were not seen for the longest time are forgotten. */
const TOTAL_MAX = 60_000;
/** Names without a claim so far. */
const FREE_MAX = 1_000;

/** Samples that are further apart than this leave a gap between them. */
const gapMs = (intervalMs: number): number => Math.max(intervalMs * 3, 5_000);

type SampledClaims = Pick<LockView, 'holders' | 'waiters'>;
const NO_CLAIMS: SampledClaims = { holders: [], waiters: [] };

type Span = { -readonly [K in keyof TimelineSpan]: TimelineSpan[K] };

/** When it ended is not known: at some time since the last sample that showed it. */
function end(span: Span, atMs: number): void {
  span.toMs = atMs;
  span.isOpen = false;
}

/** The samples of one lock. A claim is one span for as long as successive samples show it. */
class LockTimeline {
  #fromMs: number | null = null;
  #toMs: number | null = null;
  #open = new Map<string, Span>();
  #spans: Span[] = [];
  #queue: { atMs: number; holders: number; waiters: number }[] = [];
  #gaps: { fromMs: number; toMs: number }[] = [];

  /** How much memory this takes, in entries. */
  get size(): number {
    return this.#spans.length + this.#queue.length;
  }

  sample({ holders, waiters }: SampledClaims, readAtMs: number, intervalMs: number): void {
    const atMs = Math.round(readAtMs);
    // A clock that was set back: the samples of the future would never end.
    if (this.#toMs !== null && atMs < this.#toMs) return;
    this.#markGap(atMs, intervalMs);
    this.#fromMs ??= atMs;
    this.#toMs = atMs;
    const seen = new Map<string, Span>();
    for (const claim of holders.slice(0, CLAIMS_MAX))
      seen.set(claim.id, this.#continued(claim, 'held', atMs));
    for (const claim of waiters.slice(0, CLAIMS_MAX - seen.size))
      seen.set(claim.id, this.#continued(claim, 'waiting', atMs));
    for (const [id, span] of this.#open) if (seen.get(id) !== span) end(span, atMs);
    this.#open = seen;
    this.#count(atMs, holders.length, waiters.length);
    if (this.#spans.length > SPANS_MAX) this.#spans = this.#spans.slice(-SPANS_MAX);
  }

  toJson(intervalMs: number): Timeline {
    return {
      fromMs: this.#fromMs,
      toMs: this.#toMs,
      intervalMs,
      claimsMax: CLAIMS_MAX,
      gaps: this.#gaps,
      spans: this.#spans,
      queue: this.#queue,
    };
  }

  #markGap(atMs: number, intervalMs: number): void {
    const toMs = this.#toMs;
    if (toMs === null || atMs - toMs <= gapMs(intervalMs)) return;
    this.#gaps.push({ fromMs: toMs, toMs: atMs });
    if (this.#gaps.length > GAPS_MAX) this.#gaps.shift();
    for (const span of this.#open.values()) span.isOpen = false;
    this.#open = new Map();
  }

  #continued({ id, owner, fence }: ClaimView, state: Span['state'], atMs: number): Span {
    const known = this.#open.get(id);
    if (known?.state === state) {
      known.toMs = atMs;
      return known;
    }
    const span: Span = {
      ...{ id, owner, state, fence: fence?.toString() ?? null },
      ...{ fromMs: atMs, toMs: atMs, isOpen: true },
    };
    this.#spans.push(span);
    return span;
  }

  /** Only changes are kept. */
  #count(atMs: number, holders: number, waiters: number): void {
    const last = this.#queue.at(-1);
    if (last?.holders === holders && last.waiters === waiters) return;
    this.#queue.push({ atMs, holders, waiters });
    if (this.#queue.length > CHANGES_MAX) this.#queue.shift();
  }
}

/** The samples of all locks, as far as they fit. */
export class Timelines {
  /** The locks that were held or waited for. Those that were so last are at the end. */
  readonly #locks = new Map<string, LockTimeline>();
  /** Names that were read and never seen with a claim. They cannot push out what was seen of locks. */
  readonly #free = new Map<string, LockTimeline>();
  #size = 0;

  sample({ view, readAtMs }: ReadLock, intervalMs: number): void {
    const key = storedName(view.use, view.name);
    const timeline = this.#locks.get(key) ?? this.#free.get(key) ?? new LockTimeline();
    const before = this.#locks.has(key) ? timeline.size : 0;
    timeline.sample(view, readAtMs, intervalMs);
    if (view.holders.length + view.waiters.length === 0 && !this.#locks.has(key)) {
      this.#keepFree(key, timeline);
      return;
    }
    this.#free.delete(key);
    this.#size += timeline.size - before;
    this.#locks.delete(key);
    this.#locks.set(key, timeline);
    for (const [oldest, { size }] of this.#locks) {
      if (this.#size <= TOTAL_MAX || oldest === key) break;
      this.#locks.delete(oldest);
      this.#size -= size;
    }
  }

  /** A scan that began at `atMs` has found these locks, so all others were free. */
  sampleFree(found: ReadonlyMap<string, unknown>, atMs: number, intervalMs: number): void {
    for (const [key, timeline] of [...this.#locks, ...this.#free]) {
      if (found.has(key)) continue;
      const before = timeline.size;
      timeline.sample(NO_CLAIMS, atMs, intervalMs);
      if (this.#locks.has(key)) this.#size += timeline.size - before;
    }
  }

  of(key: string, intervalMs: number): Timeline {
    const timeline = this.#locks.get(key) ?? this.#free.get(key) ?? new LockTimeline();
    return timeline.toJson(intervalMs);
  }

  #keepFree(key: string, timeline: LockTimeline): void {
    this.#free.delete(key);
    this.#free.set(key, timeline);
    for (const oldest of this.#free.keys()) {
      if (this.#free.size <= FREE_MAX) break;
      this.#free.delete(oldest);
    }
  }
}
