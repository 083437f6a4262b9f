import type { Mode } from '../store/store.ts';
import { UsageError } from './exit-code.ts';
import { parseDuration, parsePermits, parseWait } from './option-values.ts';

/** The options of every verb that runs a command under a hold. */
export interface HoldOptions {
  readonly store?: string;
  readonly ttl: string;
  /** Unless set: 5 s, or a third of a TTL that is shorter than 15 s. */
  readonly grace?: string | undefined;
}

export interface RunOptions extends HoldOptions {
  readonly wait: string | false;
  readonly shared?: boolean;
  readonly permits?: string;
}

export interface OnceOptions extends HoldOptions {
  readonly remember: string;
  readonly wait: string;
}

export interface HoldTerms {
  readonly ttlMs: number;
  readonly graceMs: number;
  /**
   * How much earlier the grace period has to begin, so that the command has ended before another
   * process can hold the lock.
   */
  readonly marginMs: number;
  readonly renewEveryMs: number;
}

export interface RunTerms extends HoldTerms {
  readonly mode: Mode;
  readonly waitMs: number;
}

/**
 * The core trusts a hold for a little less than its TTL: see `trustedMs` of
 * `src/store/validity.ts`.
 */
const TRUSTED_SHARE = 0.98;
const TRUSTED_LESS_MS = 10;
const MARGIN_MAX_MS = 1_000;
const SLACK_MIN_MS = 50;
const GRACE_MS = 5_000;
const GRACE_SHARE = 1 / 3;

/**
 * The command gets SIGTERM at `deadline - margin - grace` and SIGKILL at `deadline - margin`. Renewals
 * may fail without harm during the rest of the TTL, so three of them must fit into it.
 */
export function resolveHold(options: HoldOptions): HoldTerms {
  const ttlMs = parseDuration('--ttl', options.ttl);
  const graceMs =
    options.grace === undefined
      ? Math.min(GRACE_MS, Math.floor(ttlMs * GRACE_SHARE))
      : parseDuration('--grace', options.grace);
  const slackMs = ttlMs * TRUSTED_SHARE - TRUSTED_LESS_MS - graceMs;
  if (slackMs < SLACK_MIN_MS) throw new UsageError(tooShort(options));
  return {
    ttlMs,
    graceMs,
    marginMs: Math.min(slackMs / 4, MARGIN_MAX_MS),
    renewEveryMs: Math.max(1, Math.floor(Math.min(ttlMs / 3, slackMs / 3))),
  };
}

export function resolveRun(options: RunOptions): RunTerms {
  const terms = resolveHold(options);
  if (options.shared === true && options.permits !== undefined)
    throw new UsageError('--shared and --permits exclude each other');
  const mode: Mode =
    options.permits === undefined
      ? { kind: options.shared === true ? 'shared' : 'exclusive' }
      : parsePermits(options.permits);
  return { ...terms, mode, waitMs: options.wait === false ? 0 : parseWait('--wait', options.wait) };
}

function tooShort({ grace, ttl }: HoldOptions): string {
  if (grace === undefined) return `--ttl (${ttl}) is too short to be renewed in time`;
  return `--grace (${grace}) must be shorter than --ttl (${ttl}), and leave time to renew`;
}
