import type { Mode } from '../store/store.ts';
import { UsageError } from './exit-code.ts';

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** `500ms`, `30s`, `1.5m`, `2h`. The unit is needed: `--ttl 30` could mean anything. */
export function parseDuration(option: string, text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text.trim());
  const ms = match === null ? Number.NaN : Number(match[1]) * (UNITS_MS[match[2] ?? ''] ?? Number.NaN);
  if (!Number.isInteger(ms))
    throw new UsageError(`${option} must be a duration such as 500ms, 30s, 5m or 2h; got "${text}"`);
  return ms;
}

/** Like a duration, and also `forever`. */
export function parseWait(option: string, text: string): number {
  return text === 'forever' ? Number.POSITIVE_INFINITY : parseDuration(option, text);
}

/** `2/10`: two of ten permits. */
export function parsePermits(text: string): Mode {
  const match = /^(\d+)\/(\d+)$/.exec(text.trim());
  const [count, of] = [Number(match?.[1]), Number(match?.[2])];
  if (match === null || count < 1 || of < count)
    throw new UsageError(`--permits must be like 2/10, two of ten; got "${text}"`);
  return { kind: 'permits', count, of };
}

export interface RunOptions {
  readonly store?: string;
  readonly ttl: string;
  readonly wait: string | false;
  readonly grace: string;
  readonly shared?: boolean;
  readonly permits?: string;
}

export interface RunTerms {
  readonly mode: Mode;
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly graceMs: number;
  /** How long before the grace period has to begin, so that the command is gone before the lock is anybody else's. */
  readonly marginMs: number;
  readonly renewEveryMs: number;
}

/** The core trusts a hold for a little less than its TTL: see `hold/validity.ts`. */
const TRUSTED_SHARE = 0.98;
const TRUSTED_LESS_MS = 10;
const MARGIN_MAX_MS = 1_000;
const SLACK_MIN_MS = 50;

/**
 * The command gets SIGTERM at `deadline - margin - grace` and SIGKILL at `deadline - margin`. What is left of the TTL before that is the time in which
 * renewals may fail without harm, so three of them must fit into it.
 */
export function resolveRun(options: RunOptions): RunTerms {
  const ttlMs = parseDuration('--ttl', options.ttl);
  const graceMs = parseDuration('--grace', options.grace);
  const slackMs = ttlMs * TRUSTED_SHARE - TRUSTED_LESS_MS - graceMs;
  if (graceMs >= ttlMs || slackMs < SLACK_MIN_MS) {
    throw new UsageError(
      `--grace (${options.grace}) must be shorter than --ttl (${options.ttl}), and leave some time to renew`,
    );
  }
  if (options.shared === true && options.permits !== undefined)
    throw new UsageError('--shared and --permits exclude each other');
  const mode: Mode =
    options.permits === undefined
      ? { kind: options.shared === true ? 'shared' : 'exclusive' }
      : parsePermits(options.permits);
  return {
    mode,
    ttlMs,
    graceMs,
    waitMs: options.wait === false ? 0 : parseWait('--wait', options.wait),
    marginMs: Math.min(slackMs / 4, MARGIN_MAX_MS),
    renewEveryMs: Math.max(1, Math.floor(Math.min(ttlMs / 3, slackMs / 3))),
  };
}
