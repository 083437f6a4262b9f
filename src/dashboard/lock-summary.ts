import type { LockView } from '../view.ts';
import type { ClaimSummary, LockSummary } from './api.ts';
import { claimSummary, withoutLongMetadata } from './claim-summary.ts';

/** How many holders a list shows. */
export const HOLDERS_SHOWN = 3;
/** Two readings of one instant differ by the time that the answers took. Not a change. */
const SAME_MS = 750;

/**
 * One lock of a list. `before`: its latest summary, which is returned again when nothing has
 * changed, so that a comparison by identity finds the changes.
 */
export function lockSummary(view: LockView, readAtMs: number, before?: LockSummary): LockSummary {
  const { name, use, kind, permits, done } = view;
  const first = view.holders
    .slice(0, HOLDERS_SHOWN)
    .map((claim) => withoutLongMetadata(claimSummary(claim, readAtMs, leaseOf(before, claim.id))));
  const held = view.holders.flatMap(({ heldForMs }) => (heldForMs === null ? [] : [heldForMs]));
  const left = view.holders.flatMap(({ expiresInMs }) => (expiresInMs === null ? [] : [expiresInMs]));
  const summary: LockSummary = {
    ...{ name, use, kind, permits, done },
    holderCount: view.holders.length,
    waiterCount: view.waiters.length,
    holders: first,
    heldSinceMs: held.length === 0 ? null : Math.round(readAtMs - greatest(held)),
    expiresAtMs: left.length === 0 ? null : Math.round(readAtMs - greatest(left.map((ms) => -ms))),
  };
  return before !== undefined && isSame(before, summary) ? before : summary;
}

/** The longest remaining time that was seen of a holder. */
export function leaseOf(before: LockSummary | undefined, id: string): number | null {
  return before?.holders.find((claim) => claim.id === id)?.leaseMs ?? null;
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
