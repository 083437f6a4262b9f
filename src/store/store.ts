/// <reference lib="esnext.disposable" preserve="true" />
import type { DiagnoseContext, Finding } from './finding.ts';

/**
 * The contract that every backend meets, and all that the core knows of a backend.
 *
 * A lock is a queue of weighted claims; `grant-rule.ts` says which of them are granted. The rules
 * are numbered. Each is a case of the conformance suite (`holdfast/testing`, `storeCases`).
 *
 * 1. `claim` makes one attempt, never waits for other holders, and is idempotent by id: entering
 *    the queue, asking again and recovering from a lost reply are the same call. Asking again keeps
 *    a queue position alive. For a holder it sets the lease to the time that it asks for; the core
 *    takes into account that a late request may shorten a lease.
 * 2. A refusal may be spurious; a grant never is.
 * 3. A rejection with a `StoreError` means *unknown*, unless it says `applied: 'no'`. Any other
 *    `HoldfastError` is a definite no. Neither means "lost": only `{ held: false }` does. After an
 *    unknown claim the core cleans up by id. When the signal aborts, no caller waits for the answer:
 *    a request that was not sent yet is dropped at once and rejects with `applied: 'no'`.
 * 4. Stores speak durations, never dates. `validForMs` counts from when the caller *sent* the
 *    request; where holds share a lease or a session, from the send of the last confirmed
 *    keep-alive. On session stores the core itself enforces `ttlMs`, `maxHoldMs` and
 *    `renew: false`, by releasing.
 * 5. Wake-ups are hints; asking again after `retryAfterMs` is the guarantee. A change between a
 *    refusal and the moment the subscription is active still causes a wake-up: a store that was not
 *    subscribed yet wakes the waiter once it is, and after every reconnect. A release wakes only
 *    claims that can now be granted. A renewal that changes the note wakes the waiters of that lock:
 *    a waiting `once` then sees that the run is done. The waiter belongs to the claim's id, and the
 *    last one given counts. It is dropped when `release` is called, whether or not the release is
 *    sent, or when the claim is definitely refused without having been enqueued. Once the claim is
 *    held, a wake-up means "renew now" (the session is gone, for example); a lease store may drop
 *    the waiter then. A store that cannot bound the age of a message must wake without a grant: a
 *    late pushed grant would make two holders.
 *    `watch` is for observers.
 * 6. Redirects, a missing script and reconnecting belong to the store; every other retry belongs to
 *    the core. A store never logs, never reads the environment, closes exactly what it opened, runs
 *    no repeating timer under 250 ms (but for the first waiter of a server that cannot push), keeps
 *    nothing of an abandoned request, except of one that was sent and whose late answer the core
 *    needs, and keeps the process alive while a call or `close` is pending. Renewals, reconnect timers and
 *    the sockets of subscriptions do not.
 * 7. `renew` never creates. `release` and `evict` compare the id in the same atomic step. A store with
 *    `onEvicted` reports an eviction at once to a store that made the claim and is subscribed anyway,
 *    at no cost for `claim`. The report is a hint: the core renews the hold, and the answer decides.
 *    Elsewhere, and where a report was missed, the next renewal shows the loss.
 * 8. A fence is greater than every earlier fence of that lock, and than `fenceAbove` as it was when
 *    the claim entered the queue. A store that cannot go above it refuses with a `StoreError`.
 * 9. A queue has a bound. A claim that would wait in a full queue gets a `QueueFullError`.
 * 10. Claims of one lock agree on its kind (exclusive and shared agree) and on `of`. A claim
 *     that does not, while there are others, gets a `ModeMismatchError`.
 * 11. Every name that the core accepts works, and no name sees another's claims.
 */

/** What a claim weighs: everything, one of any number of readers, or `count` of `of` permits. */
export type Mode =
  | { readonly kind: 'exclusive' }
  | { readonly kind: 'shared' }
  | { readonly kind: 'permits'; readonly count: number; readonly of: number };

/**
 * Names one claim. The id is chosen by the caller, is unique for ever and carries the owner
 * (`claim-id.ts`).
 */
export interface ClaimRef {
  readonly name: string;
  readonly id: string;
}

/** What a claim asks for. Asking again with the same id must ask for the same mode. */
export interface ClaimRequest extends ClaimRef {
  readonly mode: Mode;
  readonly ttlMs: number;
  /** Enter the queue when refused. */
  readonly wait: boolean;
  /** Text for people who inspect the lock; `''` must cost nothing. */
  readonly note: string;
  /** The greatest fence that this process has seen from this store. */
  readonly fenceAbove: bigint;
}

/** The outcome of one attempt. A grant is never spurious; a refusal may be. */
export type ClaimOutcome =
  | { readonly granted: true; readonly fence: bigint; readonly validForMs: number }
  /**
   * `retryAfterMs`: ask again no later than this, even without a wake-up. Never longer than the
   * queue position lives. `null`: the store does not know, so poll.
   */
  | { readonly granted: false; readonly retryAfterMs: number | null };

/** A grant that the store sends without being asked again. */
export interface PushedGrant {
  readonly fence: bigint;
  /** Counted from the call of `wake`. */
  readonly validForMs: number;
}

/** The caller in this process that waits for a claim, or holds it. */
export interface Waiter {
  /** Without a grant: ask again. With a grant: the claim is held. Must not throw. */
  wake(grant?: PushedGrant): void;
}

/**
 * `held: false` is the only answer that means that the hold is lost. `how`: on a session store, whether
 * the claim ended with the session or was taken away alone; `session` unless set.
 */
export type RenewOutcome =
  | { readonly held: true; readonly validForMs: number }
  | { readonly held: false; readonly how?: 'session' | 'taken' };

/** What a renewal changes: how long the claim lives from now on and, if given, its note. */
export interface RenewChange {
  readonly ttlMs: number;
  /** Replaces the claim's note; left alone when absent. */
  readonly note?: string | undefined;
}

/** A claim as `read` finds it: holders first, then the queue, in order. `null`: the store cannot know. */
export interface StoredClaim {
  readonly id: string;
  readonly granted: boolean;
  readonly mode: Mode;
  readonly fence: bigint | null;
  readonly heldForMs: number | null;
  readonly expiresInMs: number | null;
  readonly note: string | null;
  /** Only for another program's claim, whose id does not carry the owner. */
  readonly owner?: string | null | undefined;
}

/** What a store can do. A primitive that needs more throws `UnsupportedError` when it is made. */
export interface Traits {
  /** `lease`: each claim has a time to live. `session`: claims live as long as the store's session. */
  readonly lifetime: 'lease' | 'session';
  /** First come, first served. */
  readonly ordered: boolean;
  /** Can count permits. */
  readonly counting: boolean;
  /** A claim outlives the process that made it, so completion can be remembered. */
  readonly remembers: boolean;
}

/** The lock that an observer watches. */
export interface WatchTarget {
  readonly name: string;
}

/** `id`: the claim that was evicted; `null` when the store does not know which of its claims it was. */
export type EvictionListener = (id: string | null) => void;

/** A backend. It keeps the rules at the top of this file, which `storeCases` of `holdfast/testing` checks. */
export interface Store {
  /** The kind of backend, for people and telemetry: `redis`, `postgres` and so on. */
  readonly kind?: string | undefined;
  readonly traits: Traits;
  /**
   * Resolves once the server has answered and can be used. If a store lacks this method, the core
   * reads a lock instead.
   */
  connect?(signal: AbortSignal): Promise<void>;
  /** `waiter` is woken when it is worth asking again. A caller without one only polls. */
  claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome>;
  renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome>;
  /** Ends a hold or a queue position. Resolves to whether this call removed the claim. */
  release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean>;
  /** Takes a hold or a queue position away from another owner. */
  evict(claim: ClaimRef, signal?: AbortSignal): Promise<boolean>;
  /**
   * Calls back, as a hint, when a claim was evicted. It may be a claim of another store, and a late
   * or forged call does no harm. The returned function removes the listener. Absent in a store that
   * cannot push.
   */
  readonly onEvicted?: ((listener: EvictionListener) => () => void) | undefined;
  /** Calls back, as a hint, after every change of the lock; armed when the promise resolves. */
  watch(target: WatchTarget, onChange: () => void): Promise<AsyncDisposable>;
  read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]>;
  /** Names of the locks with at least one claim, each once, in no particular order. */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<string>;
  /**
   * Checks what the promises of the locks also depend on: the version and the settings of the
   * server, the rights of the user. A check that fails is a finding of level `unknown`. Rejects
   * with a `StoreError` only when the server cannot be reached. Reads only, and changes nothing.
   * Works also on a server that the store refuses to use.
   */
  diagnose?(context: DiagnoseContext): Promise<readonly Finding[]>;
  /** Closes what the store opened. Calls after it reject with a `ClosedError`. Idempotent. */
  close(): Promise<void>;
}
