import type { ClaimView } from '../view.ts';
import type { ClaimSummary } from './api.ts';

/** Longer metadata is left out of lists: there may be thousands of locks in one. */
const LIST_METADATA_MAX = 256;

/**
 * `readAtMs`: when the store was read, by the wall clock of this process. `leaseMs`: the longest
 * remaining time that was seen of the claim; what is left now, unless given.
 */
export function claimSummary(claim: ClaimView, readAtMs: number, leaseMs?: number | null): ClaimSummary {
  const { id, owner, fence, mode, heldForMs, expiresInMs, metadata } = claim;
  return {
    id,
    owner,
    fence: fence?.toString() ?? null,
    kind: mode.kind,
    permits: mode.kind === 'permits' ? mode.count : null,
    heldSinceMs: heldForMs === null ? null : Math.round(readAtMs - heldForMs),
    expiresAtMs: expiresInMs === null ? null : Math.round(readAtMs + expiresInMs),
    leaseMs: expiresInMs === null ? null : Math.round(Math.max(expiresInMs, leaseMs ?? 0)),
    metadata,
    isMetadataLeftOut: false,
  };
}

export function withoutLongMetadata(claim: ClaimSummary): ClaimSummary {
  if (claim.metadata === null || JSON.stringify(claim.metadata).length <= LIST_METADATA_MAX) return claim;
  return { ...claim, metadata: null, isMetadataLeftOut: true };
}
