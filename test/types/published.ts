/**
 * The promised surface, written once more by hand: programs outside this repository compile against
 * it. `meets.ts` compares it with the exports. A change here breaks the programs of users.
 */
import type { ClaimView, Clock, JsonObject, LockView, Mode } from '../../src/index.ts';

export interface LocksOptions {
  ttlMs?: number;
  waitMs?: number;
  renew?: boolean;
  renewEveryMs?: number;
  maxHoldMs?: number;
  pollMs?: { min: number; max: number };
  owner?: string;
  metadata?: JsonObject;
  commandMs?: number;
  renewal?: 'inline' | 'thread';
  connect?: boolean;
  clock?: Clock;
}

export interface AcquireOptions {
  ttlMs?: number;
  waitMs?: number;
  renew?: boolean;
  renewEveryMs?: number;
  maxHoldMs?: number;
  metadata?: JsonObject;
  signal?: AbortSignal;
  reentrant?: boolean;
}

export interface OnceOptions extends AcquireOptions {
  rememberMs?: number;
}

export type OnceOutcome<T> = { ran: true; value: T } | { ran: false; why: 'running' | 'done' };

export interface Hold extends AsyncDisposable {
  readonly name: string;
  readonly id: string;
  readonly owner: string;
  readonly metadata: JsonObject | null;
  readonly heldForMs: number;
  readonly fence: bigint;
  readonly signal: AbortSignal;
  readonly remainingMs: number;
  assertHeld(): void;
  extend(ttlMs?: number): Promise<void>;
  release(): Promise<boolean>;
}

export interface HoldAll extends Omit<Hold, 'fence' | 'name'> {
  readonly names: readonly string[];
  fenceOf(name: string): bigint;
}

export interface Lockable<H = Hold, O = AcquireOptions> {
  acquire(options?: O): Promise<H>;
  tryAcquire(options?: Omit<O, 'waitMs'>): Promise<H | null>;
  run<T>(fn: (hold: H) => T | Promise<T>, options?: O): Promise<T>;
  tryRun<T>(
    fn: (hold: H) => T | Promise<T>,
    options?: Omit<O, 'waitMs'>,
  ): Promise<{ ran: true; value: T } | { ran: false }>;
}

export type Use = 'lock' | 'once' | 'rateLimit' | 'schedule';

export interface Semaphore extends Lockable<Hold, AcquireOptions & { permits?: number }> {}

export interface RateLimit {
  take(count?: number): Promise<void>;
  tryTake(count?: number): Promise<boolean>;
}

export interface Candidate extends AsyncDisposable {
  readonly isLeader: boolean;
  stop(options?: { drainMs?: number }): Promise<void>;
}

export interface Election {
  start(handlers?: { onElected?(term: Hold): void | Promise<void>; onLost?(reason: Error): void }): Candidate;
  lead(fn: (term: Hold) => Promise<void>, options?: { signal?: AbortSignal }): Promise<void>;
  leader(): Promise<ClaimView | null>;
  observe(options?: { signal?: AbortSignal }): AsyncIterable<ClaimView | null>;
}

export type EventName =
  | 'waiting'
  | 'acquired'
  | 'refused'
  | 'renewed'
  | 'renewFailed'
  | 'lost'
  | 'released'
  | 'releaseFailed'
  | 'evicted'
  | 'leader'
  | 'stalled';

/** Every event has at least these. */
export type LockEvents = { [E in EventName]: { name: string; id: string; owner: string } };

export interface Locks extends AsyncDisposable {
  readonly owner: string;
  withLock<T>(name: string, fn: (hold: Hold) => T | Promise<T>, options?: AcquireOptions): Promise<T>;
  mutex(name: string, options?: AcquireOptions): Lockable;
  readWriteLock(name: string, options?: AcquireOptions): { read: Lockable; write: Lockable };
  semaphore(name: string, options: AcquireOptions & { permits: number }): Semaphore;
  all(names: readonly string[], options?: AcquireOptions): Lockable<HoldAll>;
  election(name: string, options?: AcquireOptions): Election;
  once<T>(name: string, fn: (hold: Hold) => T | Promise<T>, options?: OnceOptions): Promise<OnceOutcome<T>>;
  rateLimit(name: string, options: { permits: number; perMs: number }): RateLimit;
  forget(name: string): Promise<boolean>;
  inspect(name: string, options?: { use?: Use }): Promise<LockView>;
  list(prefix?: string): AsyncIterable<LockView>;
  evict(name: string, claim: { id: string }, options?: { use?: Use }): Promise<boolean>;
  on<E extends EventName>(event: E, listener: (e: LockEvents[E]) => void): () => void;
  releaseAll(): Promise<number>;
  close(options?: { drainMs?: number }): Promise<void>;
}

export interface SeenLock {
  name: string;
  use: Use;
  done: boolean;
  kind: 'exclusive' | 'shared' | 'permits' | null;
  permits: number | null;
  holders: ClaimView[];
  waiters: ClaimView[];
}

export interface SeenClaim {
  id: string;
  owner: string | null;
  fence: bigint | null;
  mode: Mode;
  heldForMs: number | null;
  expiresInMs: number | null;
  metadata: JsonObject | null;
}

export type PublishedMode =
  | { kind: 'exclusive' }
  | { kind: 'shared' }
  | { kind: 'permits'; count: number; of: number };
