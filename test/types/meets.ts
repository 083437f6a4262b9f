import type * as actual from '../../src/index.ts';
import type { createLocks, memoryStore, openLocks } from '../../src/index.ts';
import type * as published from './published.ts';

/** Compiles only when the first type is assignable to the second. */
type Fits<Given extends Asked, Asked> = Given;
/** Compiles only when each is assignable to the other: a program may make its own for its tests. */
type Same<A extends B, B extends C, C = A> = [A, B, C];
type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Is<T extends true> = T;

/** What users pass in, and what they get. */
export type Shapes = [
  Fits<published.LocksOptions, actual.LocksOptions>,
  Fits<published.AcquireOptions, actual.AcquireOptions>,
  Fits<published.OnceOptions, actual.OnceOptions>,
  Same<actual.Hold, published.Hold>,
  Same<actual.HoldAll, published.HoldAll>,
  Same<actual.Lockable, published.Lockable>,
  Same<actual.Lockable<actual.HoldAll>, published.Lockable<published.HoldAll>>,
  Same<actual.Semaphore, published.Semaphore>,
  Same<actual.Candidate, published.Candidate>,
  Same<actual.Election, published.Election>,
  Same<actual.OnceOutcome<Date>, published.OnceOutcome<Date>>,
  Same<actual.LockView, published.SeenLock>,
  Same<actual.ClaimView, published.SeenClaim>,
  Same<actual.Mode, published.PublishedMode>,
  Fits<actual.RateLimit, published.RateLimit>,
  Fits<actual.Locks, published.Locks>,
  Fits<actual.LockEvents, published.LockEvents>,
  Is<Equal<keyof actual.LockEvents, published.EventName>>,
];

export type Functions = [
  Fits<typeof createLocks, (store: actual.Store, options?: published.LocksOptions) => published.Locks>,
  Fits<typeof openLocks, (url: string, options?: published.LocksOptions) => Promise<published.Locks>>,
  Fits<typeof memoryStore, () => actual.Store>,
];

/** No option may be required that is documented as optional. */
export type Optional = [
  Fits<Record<string, never>, actual.LocksOptions>,
  Fits<Record<string, never>, actual.AcquireOptions>,
  Fits<{ permits: number }, actual.SemaphoreOptions>,
  Fits<{ permits: number; perMs: number }, actual.RateLimitOptions>,
];

/** An error is identified by its code, which determines its fields. */
type Carries<Thrown extends actual.HoldfastError, Code extends string, Fields> =
  Equal<Thrown['code'], Code> extends true ? (Thrown extends Error & Fields ? true : false) : false;

export type Errors = [
  Is<
    Carries<
      actual.AcquireTimeoutError,
      'ACQUIRE_TIMEOUT',
      { lock: string; waitedMs: number; holders: actual.ClaimView[]; position: number | null }
    >
  >,
  Is<Carries<actual.QueueFullError, 'QUEUE_FULL', { lock: string }>>,
  Is<Carries<actual.HoldLostError, 'HOLD_LOST', { lock: string; fence: bigint; value: unknown }>>,
  Is<Equal<actual.HoldLostError['how'], 'expired' | 'taken' | 'session' | 'closed' | 'released'>>,
  Is<Carries<actual.StaleFenceError, 'STALE_FENCE', { resource: string; fence: bigint; latest: bigint }>>,
  Is<Carries<actual.StoreError, 'STORE' | 'QUORUM', { cause?: unknown; applied: 'no' | 'unknown' }>>,
  Is<Carries<actual.QuorumError, 'QUORUM', actual.StoreError & { votes: readonly actual.Vote[] }>>,
  Is<Carries<actual.ModeMismatchError, 'MODE_MISMATCH', { lock: string }>>,
  Is<Carries<actual.UnsupportedError, 'UNSUPPORTED', unknown>>,
  Is<Carries<actual.InvalidArgumentError, 'INVALID_ARGUMENT', unknown>>,
  Is<Carries<actual.ClosedError, 'CLOSED', unknown>>,
];
