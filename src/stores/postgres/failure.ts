import { StoreError } from '../../errors.ts';
import { errorText } from '../../util/error-text.ts';

/**
 * `AB123`: an error that the server reported. A code without a digit, such as EPIPE, comes from the
 * operating system and does not tell what the server did.
 */
const SQLSTATE = /^(?=.*\d)[0-9A-Z]{5}$/;
/** The session or the server ended, perhaps after the commit. */
const ENDED = /^(57P0[124]|57P05|08|XX)/;

const HINTS: Readonly<Record<string, string>> = {
  '25006': 'this server is a standby, or is set to be read only',
  '42501': 'docs/stores/postgres.md lists the privileges that this user needs',
  '53300': 'PostgreSQL has no connection left',
};

export function sqlStateOf(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && SQLSTATE.test(code) ? code : null;
}

/** The SQLSTATE of an error or of its causes: some query builders wrap the library's error. */
export function stateIn(error: unknown): string | null {
  for (
    let each = error, depth = 0;
    depth < 4;
    each = (each as { cause?: unknown } | null)?.cause, depth += 1
  ) {
    const state = sqlStateOf(each);
    if (state !== null) return state;
  }
  return null;
}

/**
 * The outcome of a failed statement is unknown, unless the server reported the failure: then the
 * statement had no effect.
 */
export function failureOf(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const message = errorText(error);
  const state = sqlStateOf(error);
  const hint = state === null ? undefined : HINTS[state];
  const text = `PostgreSQL: ${message}${hint === undefined ? '' : ` (${hint})`}`;
  const isUndone = state !== null && !ENDED.test(state);
  return new StoreError(text, { cause: error, applied: isUndone ? 'no' : 'unknown' });
}

/** A statement that was never sent. */
export function notSent(why: string): StoreError {
  return new StoreError(`PostgreSQL: not sent: ${why}`, { applied: 'no' });
}

/** A caller has given up before its statement was sent. */
export function gaveUp(): StoreError {
  return notSent('the time was over');
}

/** A failure before any statement was sent. The cause stays the library's error, with its code. */
export function notBegun(error: unknown): StoreError {
  const { message, cause } = failureOf(error);
  return new StoreError(message, { cause, applied: 'no' });
}
