import { storedName } from '../use.ts';
import type { ClaimView, LockView } from '../view.ts';

/** Beyond this, the claims that were not seen for the longest time are forgotten. */
const CLAIMS_MAX = 60_000;

/**
 * The longest remaining time that was seen of each claim: the length of a full lease bar. The store
 * tells only what is left of a lease.
 */
export class Leases {
  /** By the lock and the claim: claims of other programs may share an id. Those seen last are at the end. */
  readonly #longestMs = new Map<string, number>();

  /** The longest so far, with what is left now; `null` for a claim without a lease. */
  see({ use, name }: LockView, { id, expiresInMs }: ClaimView): number | null {
    if (expiresInMs === null) return null;
    const key = `${storedName(use, name)}\n${id}`;
    const longestMs = Math.max(expiresInMs, this.#longestMs.get(key) ?? 0);
    this.#longestMs.delete(key);
    this.#longestMs.set(key, longestMs);
    for (const oldest of this.#longestMs.keys()) {
      if (this.#longestMs.size <= CLAIMS_MAX) break;
      this.#longestMs.delete(oldest);
    }
    return longestMs;
  }
}
