/// <reference lib="esnext.disposable" preserve="true" />

/**
 * The contract that every backend meets, and the only thing the core knows of a backend.
 *
 * A lock is an ordered line of weighted claims; `grant-rule.ts` says which of them are granted. The rules below are numbered,
 * and each of them is a case of the conformance suite (`holdfast/testing`, `storeCases`).
 *
 * 1. `claim` makes one attempt, never waits for other holders, and is idempotent by id: entering the line, asking again and
 *    recovering from a lost reply are the same call. Asking again keeps a waiting place alive and, for a holder, renews to the
 *    time it asks for; the core takes into account that a late one may shorten a lease.
 * 2. A refusal may be spurious; a grant never is.
 * 3. A rejection with a `StoreError` means *unknown*, unless it says `applied: 'no'`. Any other `HoldfastError` is a definite
 *    no. Neither means "lost": only `{ held: false }` does. After an unknown claim the core cleans up by id.
 * 4. Stores speak durations, never dates. `validForMs` is what is left, counted from when the caller *sent* the request. Where
 *    holds share a lease or a session it counts from the send of the last confirmed keep-alive. The core believes the store
 *    and not the request. On session stores the core itself enforces `ttlMs`, `maxHoldMs` and `renew: false`, by releasing.
 * 5. `watch` is a hint: it may fire for nothing, may miss, fires once after every reconnect, and is armed when its promise
 *    resolves. Asking again is the guarantee. With an `id`, only what is ahead of that claim wakes it: one release wakes one
 *    waiter. A session store also fires it when the session of a *held* id is gone, and the core then asks `renew` at once.
 * 6. Redirects, a missing script and reconnecting belong to the store; every other retry belongs to the core. A store never
 *    logs, never reads the environment, closes exactly what it opened and runs no repeating timer under 250 ms.
 * 7. `renew` never creates. `release` and `evict` compare the id in the same atomic step.
 * 8. A fence is greater than every fence given before for that lock, and than `fenceAbove` as it was when the claim entered the
 *    line: a store whose fences are its log's positions fixes them then. A store that cannot go above it refuses with a
 *    `StoreError` instead of granting.
 * 9. A line has a bound. A claim that wants to wait in a full line gets a `LineFullError`.
 * 10. Claims of one lock agree on its kind (exclusive and shared go together) and on `of`; one that does not, while there
 *    are others, gets a `ModeMismatchError`.
 * 11. Every name that the core accepts works, and no name sees another's claims.
 */

/** What a claim weighs: everything, one of any number of readers, or `count` of `of` permits. */
export type Mode =
  | { readonly kind: 'exclusive' }
  | { readonly kind: 'shared' }
  | { readonly kind: 'permits'; readonly count: number; readonly of: number };

/** Names one claim. The id is chosen by the caller, is unique for ever and carries the owner (`claim-id.ts`). */
export interface ClaimRef {
  readonly name: string;
  readonly id: string;
}

/** What a claim asks for. Asking again with the same id must ask for the same mode. */
export interface ClaimRequest extends ClaimRef {
  readonly mode: Mode;
  readonly ttlMs: number;
  /** Keep a place in line when refused. */
  readonly wait: boolean;
  /** Text for people who look; `''` must cost nothing. */
  readonly note: string;
  /** The greatest fence that this process has seen from this store. */
  readonly fenceAbove: bigint;
}

/** What one attempt came to. A grant is never spurious; a refusal may be. */
export type ClaimOutcome =
  | { readonly granted: true; readonly fence: bigint; readonly validForMs: number }
  /**
   * `retryAfterMs`: ask again no later than this even if nothing wakes you. It is the store's own safety net behind its
   * wake-ups, never longer than the place in line lives. `null`: no idea, poll.
   */
  | { readonly granted: false; readonly retryAfterMs: number | null };

/** `held: false` is the only answer that means that the hold is lost. */
export type RenewOutcome = { readonly held: true; readonly validForMs: number } | { readonly held: false };

/** What a renewal changes: how long the claim lives from now on and, if given, its note. */
export interface RenewChange {
  readonly ttlMs: number;
  /** Replaces the claim's note; left alone when absent. */
  readonly note?: string | undefined;
}

/** A claim as `read` finds it: holders first, then the line, each in order. What a store cannot know is `null`. */
export interface StoredClaim {
  readonly id: string;
  readonly granted: boolean;
  readonly mode: Mode;
  readonly fence: bigint | null;
  readonly heldForMs: number | null;
  readonly expiresInMs: number | null;
  readonly note: string | null;
  /** Only where the id does not carry the owner: another program's claim of which the store knows more. */
  readonly owner?: string | null | undefined;
}

/** What a store can do. A primitive that needs more throws `UnsupportedError` when it is made. */
export interface Traits {
  /** `lease`: each claim has its own time to live. `session`: claims live as long as the store's connection. */
  readonly lifetime: 'lease' | 'session';
  /** First come, first served. */
  readonly ordered: boolean;
  /** Can count permits. */
  readonly counting: boolean;
  /** A claim outlives the process that made it, so completion can be remembered. */
  readonly remembers: boolean;
}

/** What to watch: with an `id`, what is ahead of that claim; without, every change of the lock. */
export interface WatchTarget {
  readonly name: string;
  readonly id?: string | undefined;
}

/** A backend. Every method keeps the rules at the top of `store.ts`; `storeCases` of `holdfast/testing` checks them. */
export interface Store {
  readonly traits: Traits;
  claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimOutcome>;
  renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome>;
  /** Gives up a hold or a place in line. Resolves to whether this call removed it. */
  release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean>;
  /** Takes someone else's hold or place away; the same atomic compare by id. */
  evict(claim: ClaimRef, signal?: AbortSignal): Promise<boolean>;
  watch(target: WatchTarget, wake: () => void): Promise<AsyncDisposable>;
  read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]>;
  /** Names of the locks with at least one claim, each once, in no particular order. */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<string>;
  /** Closes what the store opened. Calls after it reject with a `ClosedError`. Idempotent. */
  close(): Promise<void>;
}
