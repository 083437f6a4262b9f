import { checkCount, checkDuration, checkKeys, checkOwner, checkType, DAY_MS, wrong } from './checks.ts';
import { type Clock, FOREVER_MS } from './clock.ts';
import { encodeMetadata, type JsonObject } from './util/json.ts';

/** How often a waiter polls when its store cannot say when to ask again. */
export interface PollBounds {
  readonly min: number;
  readonly max: number;
}

/**
 * What applies to every lock of one Locks unless a call says otherwise. All durations are whole
 * milliseconds.
 */
export interface LocksOptions {
  /** How long a hold lasts without a renewal. Default 30,000. */
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
   * The safety net behind wake-ups: the poll interval doubles from `min` to `max`, with full jitter.
   * Used where the store cannot say when to ask again; when set, it also bounds what the store
   * says. Default 50 to 1,000.
   */
  readonly pollMs?: PollBounds | undefined;
  /** Shown as the holder of a lock: 1 to 128 printable characters. Default `host:pid:random`. */
  readonly owner?: string | undefined;
  /** Shown with the owner. Plain JSON, 4 KiB at most once encoded. */
  readonly metadata?: JsonObject | undefined;
  /**
   * How long a command may take. Without an answer by then, its outcome is unknown.
   * Default 5,000.
   */
  readonly commandMs?: number | undefined;
  /**
   * `openLocks` only: whether it connects and waits for the store's first answer. Default true;
   * with false the first call connects.
   */
  readonly connect?: boolean | undefined;
  /**
   * `inline`, the default: renewals stop while the event loop is blocked. `thread`, with `openLocks`
   * only and not with `memory:`: renewals run in a thread of their own, for at most 10 minutes without
   * a turn of the event loop.
   */
  readonly renewal?: 'inline' | 'thread' | undefined;
  /** For tests: `virtualClock()`. */
  readonly clock?: Clock | undefined;
}

/**
 * What one call, or one primitive, sets for itself. An option that is left out is as for the
 * primitive, or else as for the Locks. Durations are whole milliseconds.
 */
export interface AcquireOptions {
  /** How long the hold lasts without a renewal. */
  readonly ttlMs?: number | undefined;
  /** How long to wait for the lock. 0: one try. `Infinity` is allowed. */
  readonly waitMs?: number | undefined;
  /** Keep the hold alive until it is released. */
  readonly renew?: boolean | undefined;
  /** How often to renew. Must be shorter than `ttlMs`. */
  readonly renewEveryMs?: number | undefined;
  /** Renewal stops here, then the hold is lost. */
  readonly maxHoldMs?: number | undefined;
  /** Replaces the metadata of the Locks for this claim. */
  readonly metadata?: JsonObject | undefined;
  /**
   * Ends the wait; `acquire` then rethrows `signal.reason`. It does not touch a hold that was
   * already returned.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * Inside a `run` or `withLock` with the same option, acquiring the same lock gives a hold on the
   * same claim instead of waiting for itself. Follows the asynchronous context, not the process.
   * Default false.
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
  /** Whether the user set `pollMs`, so that it also bounds what the store says. */
  readonly pollBound: boolean;
  readonly note: string;
  readonly signal: AbortSignal | undefined;
  readonly reentrant: boolean;
}

export const ACQUIRE_KEYS = [
  'ttlMs',
  'waitMs',
  'renew',
  'renewEveryMs',
  'maxHoldMs',
  'metadata',
  'signal',
  'reentrant',
] as const;

const LOCKS_KEYS = [
  'ttlMs',
  'waitMs',
  'renew',
  'renewEveryMs',
  'maxHoldMs',
  'pollMs',
  'owner',
  'metadata',
  'commandMs',
  'renewal',
  'connect',
  'clock',
] as const;

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
  /**
   * The share of what the store granted after which a hold is renewed: two more tries fit before
   * the deadline.
   */
  renewShare: 1 / 3,
  /**
   * Clocks of different machines may run apart by this share of a validity, plus a fixed part for
   * rounding.
   */
  driftShare: 0.01,
  driftMs: 2,
  /** Without an answer after this time, the outcome of a command is unknown. */
  commandMs: 5_000,
  /** The delays between retries of background work. */
  retryMs: { min: 100, max: 5_000 },
  /** How long a time-out may spend on reading the holders of the lock. */
  explainMs: 1_000,
  /** How long a call that is over waits for what is left of it, which goes on in the background. */
  settleMs: 1_000,
  /** How long `close` waits for running holds. */
  drainMs: 10_000,
  /** How many claims may wait in one queue. */
  queueMax: 10_000,
  /** How long a waiter keeps its queue position, at least, without sending its claim again. */
  queuePositionMs: 30_000,
} as const;

/** Checks the options that do not change from call to call, and fills in the defaults. */
export function resolveLocksOptions(options: LocksOptions): Settings {
  checkKeys(options, LOCKS_KEYS);
  const renewal = options.renewal ?? 'inline';
  if (renewal !== 'inline' && renewal !== 'thread') throw wrong('renewal', 'inline or thread', renewal);
  const pollMs = checkKeys(options.pollMs ?? DEFAULTS.pollMs, ['min', 'max'], 'pollMs');
  checkType('connect', options.connect ?? true, 'boolean');
  checkDuration('commandMs', options.commandMs ?? DEFAULTS.commandMs);
  checkDuration('pollMs.min', pollMs.min);
  checkCount('pollMs.max', pollMs.max, pollMs.min, DAY_MS);
  if (options.owner !== undefined) checkOwner(options.owner);
  const base = { ...DEFAULTS.settings, pollMs, pollBound: options.pollMs !== undefined };
  return overlay(base, options);
}

/**
 * Lays the options of a call over those of its primitive. `more`: further keys that this call knows.
 * Throws `InvalidArgumentError` before anything is sent.
 */
export function resolve(
  base: Settings,
  options: AcquireOptions | undefined,
  more: readonly string[] = [],
): Settings {
  if (options === undefined) return base;
  return overlay(base, checkKeys(options, more.length === 0 ? ACQUIRE_KEYS : [...ACQUIRE_KEYS, ...more]));
}

function overlay(base: Settings, options: AcquireOptions): Settings {
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
