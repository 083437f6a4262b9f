import type { StoredClaim } from '../../store/store.ts';
import { agreedFence, greatest } from './fence.ts';

/**
 * The claims that a majority of the nodes holds, from what each of them shows. `silent` nodes did not answer: what they might hold counts for the claim, since
 * otherwise a hold would vanish from sight with the node.
 */
export function claimsAtMajority(
  reads: readonly (readonly StoredClaim[])[],
  majority: number,
  silent: number,
): StoredClaim[] {
  const found = new Map<string, StoredClaim[]>();
  for (const claims of reads) {
    for (const claim of claims) {
      if (!claim.granted) continue;
      const same = found.get(claim.id);
      if (same === undefined) found.set(claim.id, [claim]);
      else same.push(claim);
    }
  }
  const needed = Math.max(majority - silent, 1);
  return [...found.values()].filter((same) => same.length >= needed).map((same) => merged(same, needed));
}

function merged(same: readonly StoredClaim[], needed: number): StoredClaim {
  const [first] = same as [StoredClaim, ...StoredClaim[]];
  const fences = same.map((claim) => claim.fence).filter((fence) => fence !== null);
  const expiries = same.map((claim) => claim.expiresInMs).filter((ms) => ms !== null);
  return {
    ...first,
    fence: agreedFence(fences, needed) ?? (fences.length === 0 ? null : greatest(fences)),
    heldForMs: longest(same.map((claim) => claim.heldForMs)),
    // It is over when one more than a minority has run out.
    expiresInMs: expiries.length < needed ? null : (expiries.sort((a, b) => b - a)[needed - 1] ?? null),
    note: same.map((claim) => claim.note).find((note) => note !== null && note !== '') ?? first.note,
  };
}

function longest(durations: readonly (number | null)[]): number | null {
  return durations.reduce((a, b) => (a === null ? b : b === null ? a : Math.max(a, b)), null);
}
