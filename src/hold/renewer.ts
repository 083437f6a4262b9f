import type { Instant } from '../store/validity.ts';
import type { Deadline } from './deadline.ts';
import type { HeldClaim } from './held-claim.ts';

/**
 * Keeps the holds of one Locks alive. `renewals.ts` does so in the event loop of the caller,
 * `src/thread/` in a thread of its own.
 */
export interface Renewer {
  /** Everything that is held now. */
  readonly holds: readonly HeldClaim[];
  readonly isEmpty: boolean;
  /** The deadline of a hold whose grant, asked for at `sent`, is valid for `validForMs`. */
  deadline(sent: Instant, validForMs: number): Deadline;
  /** Keeps the hold alive from now on. */
  add(held: HeldClaim, sent: Instant, validForMs: number): void;
  remove(held: HeldClaim): void;
  /** The store says that something has happened to the claim. */
  renewNow(held: HeldClaim): void;
  /** The store says that the claim may have been evicted: asks it whether the claim is still held. */
  check(held: HeldClaim): void;
  /** Renews now, at the user's request. Rejects when the store did not confirm it. */
  extend(held: HeldClaim, ttlMs: number): Promise<void>;
  /** The pending renewal; `null` when there is none. */
  inFlight(held: HeldClaim): Promise<unknown> | null;
  /** How long the event loop has been blocked, when that is long for this hold; else 0. */
  blockedMs(held: HeldClaim): number;
  /** Cancels every timer. */
  close(): void;
}
