import { storedName, type Use } from '../use.ts';
import type { LockDetail, LockSummary } from './api.ts';
import { claimSummary } from './claim-summary.ts';
import type { Durations } from './durations.ts';
import type { Leases } from './leases.ts';
import { lockSummary } from './lock-summary.ts';
import type { ReadLock } from './scan.ts';
import type { Timelines } from './timeline.ts';

const HOLDERS_MAX = 1_000;

interface DetailSources {
  readonly timelines: Timelines;
  readonly durations: Durations;
  readonly leases: Leases;
  /** The lock in the latest scan. */
  readonly before: LockSummary | undefined;
  readonly intervalMs: number;
}

/** One lock with its holders, a page of its waiters, and what was seen of it so far. */
export function lockDetail(
  { view, readAtMs }: ReadLock,
  use: Use,
  page: { readonly offset: number; readonly limit: number },
  { timelines, durations, leases, before, intervalMs }: DetailSources,
): LockDetail {
  const key = storedName(use, view.name);
  const { offset, limit } = page;
  return {
    takenAtMs: Math.round(readAtMs),
    // Between its runs a schedule has no claim of its own. The scan has found its slots.
    lock:
      use === 'schedule' && view.kind === null && before?.done
        ? before
        : lockSummary(view, readAtMs, leases, before),
    holders: view.holders
      .slice(0, HOLDERS_MAX)
      .map((claim) => claimSummary(claim, readAtMs, leases.see(view, claim))),
    waiters: view.waiters.slice(offset, offset + limit).map((claim) => claimSummary(claim, readAtMs)),
    waiterOffset: offset,
    timeline: timelines.of(key, intervalMs),
    ...durations.of(key),
  };
}
