import { ownerOf } from './claim-id.ts';
import type { Mode, StoredClaim } from './store/store.ts';
import { DONE, slotIn, type Use, usedName } from './use.ts';
import type { JsonObject } from './util/json.ts';
import { withJson } from './util/to-json.ts';

/** A lock, as shown to people. `null`: the store does not know. Works with `JSON.stringify`. */
export interface LockView {
  /** The user's own name, also for `once`, rate limits and schedules. */
  readonly name: string;
  readonly use: Use;
  /** A remembered finished `once`, or latest slot of a schedule. It is shown without holders. */
  readonly done: boolean;
  /** The kind of the claims; `null` when there are none. */
  readonly kind: 'exclusive' | 'shared' | 'permits' | null;
  /** The capacity of a semaphore. */
  readonly permits: number | null;
  readonly holders: ClaimView[];
  /** In queue order: the first is next. */
  readonly waiters: ClaimView[];
}

/** A claim, as shown to people. Durations are in milliseconds. `null`: the store does not know. */
export interface ClaimView {
  /** `evict` takes it. */
  readonly id: string;
  readonly owner: string | null;
  /** `null` while it waits. */
  readonly fence: bigint | null;
  readonly mode: Mode;
  /** `null` while it waits. */
  readonly heldForMs: number | null;
  /** How long the lease or the queue position lives without a renewal. */
  readonly expiresInMs: number | null;
  readonly metadata: JsonObject | null;
}

/** Thousands of waiters may time out together, each with an error of its own that names holders. */
export const HOLDERS_MAX = 100;

export function viewLock(stored: string, claims: readonly StoredClaim[]): LockView {
  const mode = claims[0]?.mode;
  const { use, name } = usedName(stored);
  const isRunOnce = use === 'once' || use === 'schedule';
  const done = isRunOnce && claims.some((claim) => claim.granted && claim.note === DONE);
  return withJson({
    name,
    use,
    done,
    kind: mode?.kind ?? null,
    permits: mode?.kind === 'permits' ? mode.of : null,
    // A slot's claim only remembers. The run holds the claim of the schedule itself.
    holders: done || slotIn(stored) !== null ? [] : claims.filter((claim) => claim.granted).map(viewClaim),
    waiters: claims.filter((claim) => !claim.granted).map(viewClaim),
  });
}

export function viewClaim({ granted: _, note, owner, ...claim }: StoredClaim): ClaimView {
  return withJson({ ...claim, owner: owner ?? ownerOf(claim.id), metadata: metadataIn(note) });
}

/** Another program may have written the note: a note that is not a JSON object is not metadata. */
export function metadataIn(note: string | null): JsonObject | null {
  try {
    return note?.[0] === '{' ? JSON.parse(note) : null;
  } catch {
    return null;
  }
}
