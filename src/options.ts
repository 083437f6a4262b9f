import { checkCount, checkDuration, checkOwner, checkType, DAY_MS, wrong } from './checks.ts';
import { type Clock, FOREVER_MS } from './clock.ts';
import { encodeMetadata, type JsonObject } from './json.ts';

/** Bounds on how often a waiter asks when its store cannot say when to ask again. */
export interface PollBounds {
  readonly min: number;
  readonly max: number;
}

/** What holds for every lock of one Locks unless a call says otherwise. All durations are whole milliseconds. */
export interface LocksOptions {
  /** How long a hold outlives a silent holder. Default 30,000. */
  readonly ttlMs?: number | undefined;
  /** How long `acquire` waits. 0: one try. `Infinity` is allowed. Default 10,000. */
  readonly waitMs?: number | undefined;
  /** Keep each hold alive until it is released. Default true. */
  readonly renew?: boolean | undefined;
  /** Default: a third of what the store granted. Must be shorter than `ttlMs`. */
  readonly renewEveryMs?: number | undefined;
  /** Renewal stops here, then the hold is lost. Default `Infinity`. */
  readonly maxHoldMs?: number | undefined;
  /**
   * The safety net behind push wake-up: the interval doubles from `min` to `max`, with full jitter. Used where the store cannot
   * say when to ask again; when set, it also bounds what the store says. Default 50 to 1,000.
   */
  readonly pollMs?: PollBounds | undefined;
  /** Shown to people who ask who holds a lock: 1 to 128 printable characters. Default `host:pid:random`. */
  readonly owner?: string | undefined;
  /** Shown too. Plain JSON, 4 KiB at most once encoded. */
  readonly metadata?: JsonObject | undefined;
  /** `inline`, the default. `thread` is not built yet: `openLocks` rejects it with `UnsupportedError`, `createLocks` with `InvalidArgumentError`. */
  readonly renewal?: 'inline' | 'thread' | undefined;
  /** For tests: `virtualClock()`. */
  readonly clock?: Clock | undefined;
}

/** What one call, or one primitive, sets for itself. What is left out is as the primitive, or else the Locks, has it. Durations are whole milliseconds. */
export interface AcquireOptions {
  /** How long the hold outlives a silent holder. */
  readonly ttlMs?: number | undefined;
  /** How long to wait for it. 0: one try. `Infinity` is allowed. */
  readonly waitMs?: number | undefined;
  /** Keep the hold alive until it is released. */
  readonly renew?: boolean | undefined;
  /** How often to renew. Must be shorter than `ttlMs`. */
  readonly renewEveryMs?: number | undefined;
  /** Renewal stops here, then the hold is lost. */
  readonly maxHoldMs?: number | undefined;
  /** Replaces the metadata of the Locks for this claim. */
  readonly metadata?: JsonObject | undefined;
  /** Ends the wait; `acquire` then rethrows `signal.reason`. It does not touch a hold that was already returned. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Inside a `run` or `withLock` that said so too, taking the same lock again gives a hold on the same claim instead of
   * waiting for itself. Follows the asynchronous context, not the process. Default false.
   */
  readonly reentrant?: boolean | undefined;
}

/** Options after defaults and checks: what the core works with. */
export interface Settings {
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly renew: boolean;
  readonly renewEveryMs: number | null;
  readonly maxHoldMs: number;
  readonly pollMs: PollBounds;
  /** Whether the user set `pollMs`, so that it bounds the store's own word. */
  readonly pollBound: boolean;
  readonly note: string;
  readonly signal: AbortSignal | undefined;
  readonly reentrant: boolean;
}

/** Every default, once. */
export const DEFAULTS = {
  settings: {
    ttlMs: 30_000,
    waitMs: 10_000,
    renew: true,
    renewEveryMs: null,
    maxHoldMs: FOREVER_MS,
    note: '',
    signal: undefined,
    reentrant: false,
  },
  pollMs: { min: 50, max: 1_000 },
  /** The share of what the store granted after which a hold is renewed: two more tries fit before the deadline. */
  renewShare: 1 / 3,
  /** Clocks of different machines may run apart by this share of a validity, plus a fixed part for rounding. */
  driftShare: 0.01,
  driftMs: 2,
  /** No answer after this long is an unknown answer. */
  commandMs: 5_000,
  /** The delays after which work in the background is tried again. */
  retryMs: { min: 100, max: 5_000 },
  /** How long a time-out may spend on finding out who holds the lock. */
  explainMs: 1_000,
  /** How long `close` waits for running holds. */
  drainMs: 10_000,
  /** How many claims may wait in one line. */
  lineMax: 10_000,
  /** How long a place in line lives unless it is asked for again, at least. */
  placeMs: 30_000,
} as const;

/** Checks what does not change from call to call and gives the settings that every call starts from. */
export function resolveLocksOptions(options: LocksOptions): Settings {
  checkType('options', options, 'object');
  const renewal = options.renewal ?? 'inline';
  if (renewal !== 'inline') throw wrong('renewal', 'inline', renewal);
  const pollMs = options.pollMs ?? DEFAULTS.pollMs;
  checkDuration('pollMs.min', pollMs.min);
  checkCount('pollMs.max', pollMs.max, pollMs.min, DAY_MS);
  if (options.owner !== undefined) checkOwner(options.owner);
  return resolve({ ...DEFAULTS.settings, pollMs, pollBound: options.pollMs !== undefined }, options);
}

/** Lays a call's options over those of its primitive. Throws `InvalidArgumentError` before anything is sent. */
export function resolve(base: Settings, options: AcquireOptions | undefined): Settings {
  if (options === undefined) return base;
  checkType('options', options, 'object');
  const settings: Settings = {
    ...base,
    ttlMs: checkDuration('ttlMs', options.ttlMs ?? base.ttlMs),
    waitMs: checkDuration('waitMs', options.waitMs ?? base.waitMs, ', or 0, or Infinity'),
    renew: checkType('renew', options.renew ?? base.renew, 'boolean'),
    renewEveryMs: options.renewEveryMs ?? base.renewEveryMs,
    maxHoldMs: checkDuration('maxHoldMs', options.maxHoldMs ?? base.maxHoldMs, ', or Infinity'),
    note: options.metadata == null ? base.note : encodeMetadata(options.metadata),
    signal: checkSignal(options.signal ?? base.signal),
    reentrant: checkType('reentrant', options.reentrant ?? base.reentrant, 'boolean'),
  };
  const { renewEveryMs, ttlMs } = settings;
  if (renewEveryMs !== null) checkCount('renewEveryMs', renewEveryMs, 1, ttlMs - 1, ', less than ttlMs');
  return settings;
}

function checkSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (signal !== undefined && typeof signal?.throwIfAborted !== 'function') {
    throw wrong('signal', 'an AbortSignal', signal);
  }
  return signal;
}
