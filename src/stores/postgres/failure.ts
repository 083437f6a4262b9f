import { StoreError } from '../../errors.ts';
import { errorText } from '../error-text.ts';

/** `AB123`, as every error that the server itself tells of. Without a digit it is one of the operating system, as EPIPE, and says nothing of what the server did. */
const SQLSTATE = /^(?=.*\d)[0-9A-Z]{5}$/;
/** The session ended, or the server did: perhaps after it had committed. */
const ENDED = /^(57P0[124]|57P05|08|XX)/;

const HINTS: Readonly<Record<string, string>> = {
  '25006': 'this server is a standby, or is set to be read only',
  '42501': 'this user may not do that: docs/stores/postgres.md lists what is needed',
  '53300': 'PostgreSQL has no connection left',
};

export function sqlStateOf(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && SQLSTATE.test(code) ? code : null;
}

/** Some query builders wrap what the client library throws. */
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

/** What a failed statement means: unknown, unless the server itself said that it failed, for then nothing of it stays. */
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

/** What failed before any statement of ours was sent. Its cause stays what the client library said: its code is what people look for. */
export function notBegun(error: unknown): StoreError {
  const { message, cause } = failureOf(error);
  return new StoreError(message, { cause, applied: 'no' });
}
