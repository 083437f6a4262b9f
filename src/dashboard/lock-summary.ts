import type { ClaimView, LockView } from '../view.ts';
import type { ClaimSummary, LockSummary } from './api.ts';
import { claimSummary, withoutLongMetadata } from './claim-summary.ts';
import type { Leases } from './leases.ts';

/** How many holders a list shows. */
export const HOLDERS_SHOWN = 3;
/** Two readings of one instant differ by the time that the answers took. Not a change. */
const SAME_MS = 750;

/**
 * One lock of a list. `before`: its latest summary, which is returned again when nothing has
 * changed, so that a comparison by identity finds the changes.
 */
export function lockSummary(
  view: LockView,
  readAtMs: number,
  leases: Leases,
  before?: LockSummary,
): LockSummary {
  const { name, use, kind, permits, done } = view;
  const holders = view.holders.map((claim) => ({ claim, leaseMs: leases.see(view, claim) }));
  const held = view.holders.flatMap(({ heldForMs }) => (heldForMs === null ? [] : [heldForMs]));
  const left = view.holders.flatMap(({ expiresInMs }) => (expiresInMs === null ? [] : [expiresInMs]));
  const summary: LockSummary = {
    ...{ name, use, kind, permits, done },
    holderCount: view.holders.length,
    waiterCount: view.waiters.length,
    holders: shown(holders).map(({ claim, leaseMs }) =>
      withoutLongMetadata(claimSummary(claim, readAtMs, leaseMs)),
    ),
    heldSinceMs: held.length === 0 ? null : Math.round(readAtMs - greatest(held)),
    expiresAtMs: left.length === 0 ? null : Math.round(readAtMs - greatest(left.map((ms) => -ms))),
  };
  return before !== undefined && isSame(before, summary) ? before : summary;
}

interface Holder {
  readonly claim: ClaimView;
  readonly leaseMs: number | null;
}

/**
 * The first holders, and always the one whose lease ends first and the one with the least share of
 * its lease left: the state of the whole lock is judged by those.
 */
function shown(holders: readonly Holder[]): readonly Holder[] {
  if (holders.length <= HOLDERS_SHOWN) return holders;
  const leftMs = ({ claim }: Holder): number => claim.expiresInMs ?? Number.POSITIVE_INFINITY;
  const share = (holder: Holder): number => leftMs(holder) / (holder.leaseMs || 1);
  const [first] = holders;
  const picked = new Set([
    first,
    least(holders, leftMs),
    least(holders, share),
    ...holders.slice(1, HOLDERS_SHOWN),
  ]);
  const kept = new Set([...picked].slice(0, HOLDERS_SHOWN));
  return holders.filter((holder) => kept.has(holder));
}

function least<T>(items: readonly T[], rankOf: (item: T) => number): T | undefined {
  let [best] = items;
  for (const item of items) if (best !== undefined && rankOf(item) < rankOf(best)) best = item;
  return best;
}

function greatest(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => Math.max(a, b));
}

function isSame(a: LockSummary, b: LockSummary): boolean {
  return (
    a.kind === b.kind &&
    a.permits === b.permits &&
    a.done === b.done &&
    a.holderCount === b.holderCount &&
    a.waiterCount === b.waiterCount &&
    isNear(a.heldSinceMs, b.heldSinceMs) &&
    isNear(a.expiresAtMs, b.expiresAtMs) &&
    a.holders.length === b.holders.length &&
    a.holders.every((claim, n) => isSameClaim(claim, b.holders[n]))
  );
}

function isSameClaim(a: ClaimSummary, b: ClaimSummary | undefined): boolean {
  return (
    a.id === b?.id &&
    a.fence === b.fence &&
    isNear(a.heldSinceMs, b.heldSinceMs) &&
    isNear(a.expiresAtMs, b.expiresAtMs) &&
    JSON.stringify(a.metadata) === JSON.stringify(b.metadata)
  );
}

function isNear(a: number | null, b: number | null): boolean {
  return a === null || b === null ? a === b : Math.abs(a - b) < SAME_MS;
}
