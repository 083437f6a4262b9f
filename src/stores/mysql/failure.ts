import { StoreError } from '../../errors.ts';
import { errorText } from '../../util/error-text.ts';

/**
 * Errors that the server itself reports, and that do not say whether the statement was committed: it
 * shuts down, it failed in the commit, the session was killed or was idle for too long.
 */
const ENDED = new Set([1053, 1105, 1180, 1927, 3169, 4031]);
/** The server is set to be read only: a replica, or the old primary after a failover. */
const READ_ONLY = new Set([1290, 1792, 1836]);

const HINTS: Readonly<Record<number, string>> = {
  1040: 'MySQL has no connection left',
  1044: 'docs/stores/mysql.md lists what the user needs',
  1142: 'docs/stores/mysql.md lists what the user needs',
  1290: 'this server is a replica, or is set to be read only',
  1836: 'this server is a replica, or is set to be read only',
};

/** The number of an error that the server itself reported; `null` for any other error. */
export function errorNumberOf(error: unknown): number | null {
  const cause = error instanceof StoreError ? error.cause : error;
  const { errno, sqlState } = (cause ?? {}) as { errno?: unknown; sqlState?: unknown };
  return typeof errno === 'number' && typeof sqlState === 'string' && errno > 0 ? errno : null;
}

export function isReadOnly(error: unknown): boolean {
  return READ_ONLY.has(errorNumberOf(error) ?? 0);
}

/**
 * The outcome of a failed statement is unknown, unless the server itself said that it failed: each
 * statement is a transaction, so nothing of it stays.
 */
export function failureOf(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const number = errorNumberOf(error);
  const hint = number === null ? undefined : HINTS[number];
  const text = `MySQL: ${errorText(error)}${hint === undefined ? '' : ` (${hint})`}`;
  const isUndone = number !== null && !ENDED.has(number);
  return new StoreError(text, { cause: error, applied: isUndone ? 'no' : 'unknown' });
}

/** A failure before any statement that changes something was sent. */
export function notBegun(error: unknown): StoreError {
  const { message, cause } = failureOf(error);
  return new StoreError(message, { cause, applied: 'no' });
}

/** A statement that was never sent. */
export function notSent(why: string): StoreError {
  return new StoreError(`MySQL: not sent: ${why}`, { applied: 'no' });
}

export function unanswered(): StoreError {
  return new StoreError('MySQL did not answer within the time limit', { applied: 'unknown' });
}
