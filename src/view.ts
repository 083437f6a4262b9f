import { ownerOf } from './claim-id.ts';
import type { JsonObject } from './json.ts';
import type { Mode, StoredClaim } from './store/store.ts';

/** A lock as people see it. What a store cannot know is `null`. */
export interface LockView {
  readonly name: string;
  /** What the lock is used as now; `null` when nobody holds it or waits. */
  readonly kind: 'exclusive' | 'shared' | 'permits' | null;
  /** The capacity of a semaphore. */
  readonly permits: number | null;
  readonly holders: ClaimView[];
  /** In line order: the first is next. */
  readonly waiters: ClaimView[];
}

/** A claim as people see it. Durations are in milliseconds; what a store cannot know is `null`. */
export interface ClaimView {
  /** What `evict` takes. */
  readonly id: string;
  readonly owner: string | null;
  /** `null` while it waits. */
  readonly fence: bigint | null;
  readonly mode: Mode;
  /** `null` while it waits. */
  readonly heldForMs: number | null;
  /** What is left of its lease, or of its place in line, unless it is renewed. */
  readonly expiresInMs: number | null;
  readonly metadata: JsonObject | null;
}

export function viewLock(name: string, claims: readonly StoredClaim[]): LockView {
  const mode = claims[0]?.mode;
  return {
    name,
    kind: mode?.kind ?? null,
    permits: mode?.kind === 'permits' ? mode.of : null,
    holders: claims.filter((claim) => claim.granted).map(viewClaim),
    waiters: claims.filter((claim) => !claim.granted).map(viewClaim),
  };
}

export function viewClaim({ granted: _, note, owner, ...claim }: StoredClaim): ClaimView {
  return { ...claim, owner: owner ?? ownerOf(claim.id), metadata: metadataIn(note) };
}

/** A note may have been written by another program: what is not a JSON object is not metadata. */
function metadataIn(note: string | null): JsonObject | null {
  try {
    return note?.[0] === '{' ? JSON.parse(note) : null;
  } catch {
    return null;
  }
}
