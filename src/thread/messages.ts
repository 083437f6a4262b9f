import type { DiagnoseContext, Finding } from '../store/finding.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  PushedGrant,
  RenewChange,
  RenewOutcome,
  StoredClaim,
  Traits,
} from '../store/store.ts';
import type { Instant } from '../store/validity.ts';
import type { PlainError } from './plain-error.ts';

/** What the thread gets when it starts. */
export interface ThreadData {
  readonly url: string;
  /** Client libraries are looked for from this file on. */
  readonly file: string;
  readonly commandMs: number;
  /** The buffer of a `SharedHeader`. */
  readonly header: SharedArrayBuffer;
  /** The thread stops renewing when the event loop has had no turn for this time. */
  readonly withoutTurnMs: number;
}

/** The store that the thread has opened. */
export interface OpenedStore {
  readonly traits: Traits;
  readonly kind: string | undefined;
  /** The clock of the thread when it answered. */
  readonly monotonicMs: number;
}

/** The part of a `DiagnoseContext` that can be sent to a thread. */
export type DiagnoseLimits = Pick<DiagnoseContext, 'ttlMs' | 'commandMs' | 'limitMs'>;

/** The calls that the thread answers. */
export interface ThreadCalls {
  open(): OpenedStore;
  connect(): void;
  /** `hasWaiter`: the thread sends a `wake` message when it is worth asking again. */
  claim(request: ClaimRequest, hasWaiter: boolean): ClaimOutcome;
  renew(claim: ClaimRef, change: RenewChange): RenewOutcome;
  release(claim: ClaimRef): boolean;
  evict(claim: ClaimRef): boolean;
  watch(number: number, name: string): void;
  unwatch(number: number): void;
  read(name: string): readonly StoredClaim[];
  /** Some names of the list of that number, and whether these were the last. */
  list(number: number, prefix: string): { readonly names: readonly string[]; readonly isDone: boolean };
  endList(number: number): void;
  diagnose(limits: DiagnoseLimits): readonly Finding[];
  close(): void;
  extend(id: string, ttlMs: number): void;
  /** Renews the hold no more. Answered when no renewal of it is pending. */
  stopRenewing(id: string): void;
}

export type Verb = keyof ThreadCalls;
export type Arguments<V extends Verb> = Parameters<ThreadCalls[V]>;
export type Answer<V extends Verb> = ReturnType<ThreadCalls[V]>;

export interface Call<V extends Verb = Verb> {
  readonly kind: 'call';
  readonly number: number;
  readonly verb: V;
  readonly args: Arguments<V>;
  /**
   * The caller's signal had aborted before the call: the store only drops the waiter, see
   * `CleanUp.release`.
   */
  readonly isAbandoned: boolean;
}

/**
 * A hold that the thread keeps alive, as JSON in its slot. `null` stands for a time without end.
 */
export interface KeptHold {
  readonly name: string;
  readonly id: string;
  readonly ttlMs: number;
  readonly renew: boolean;
  readonly renewEveryMs: number | null;
  readonly maxHoldMs: number | null;
  /** By the clock that threads share. */
  readonly sent: Instant;
  readonly validForMs: number;
  /** What a command of unknown outcome may have set the claim's time to. */
  readonly leastMs: number | null;
}

export type ToThread =
  | Call
  /** Nobody waits for the answer to this call any more. */
  | { readonly kind: 'abandon'; readonly number: number }
  | { readonly kind: 'page'; readonly buffer: SharedArrayBuffer }
  /** Look for new holds now, and from now on. */
  | { readonly kind: 'look' }
  | { readonly kind: 'drop'; readonly id: string }
  | { readonly kind: 'renewNow'; readonly id: string }
  /** The claim may have been evicted. */
  | { readonly kind: 'check'; readonly id: string };

export type FromThread =
  | { readonly kind: 'answer'; readonly number: number; readonly value: unknown }
  | { readonly kind: 'failure'; readonly number: number; readonly error: PlainError }
  /** `at`: the validity of the grant counts from then. */
  | { readonly kind: 'wake'; readonly id: string; readonly grant: PushedGrant | null; readonly at: Instant }
  | { readonly kind: 'changed'; readonly number: number }
  /** To receive it is a turn of the event loop. */
  | { readonly kind: 'ping' }
  | { readonly kind: 'lost'; readonly id: string }
  | { readonly kind: 'renewed'; readonly id: string; readonly tookMs: number; readonly validForMs: number }
  | {
      readonly kind: 'renewFailed';
      readonly id: string;
      readonly error: PlainError;
      readonly tookMs: number;
      readonly remainingMs: number;
    };
