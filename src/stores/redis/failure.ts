import { ClosedError, StoreError } from '../../errors.ts';
import { errorText } from '../error-text.ts';
import type { Link } from './link.ts';

/** Errors that the server gives instead of doing anything. */
const NOTHING_DONE =
  /\b(NOSCRIPT|OOM|WRONGTYPE|READONLY|LOADING|BUSY|MISCONF|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|CROSSSLOT|NOAUTH|NOPERM|WRONGPASS|DENIED|UNKILLABLE)\b/;

const HINTS: Readonly<Record<string, string>> = {
  WRONGTYPE: 'a key of this lock is in use for something else',
  OOM: 'Redis is out of memory',
  READONLY: 'this Redis is a replica',
  NOPERM: 'this Redis user may not do that: docs/stores/redis.md lists what is needed',
};

/** What a failed command means to the core: unknown, unless the server said that it did nothing. */
export function failureOf(error: unknown): StoreError {
  const message = errorText(error);
  const code = NOTHING_DONE.exec(message)?.[1];
  const hint = code === undefined ? undefined : HINTS[code];
  const text = `Redis: ${message}${hint === undefined ? '' : ` (${hint})`}`;
  return new StoreError(text, { cause: error, applied: code === undefined ? 'unknown' : 'no' });
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/** Of a failure: was it a replica that we asked to write? Somebody else is the master then. */
export function isFromReplica(failure: unknown): boolean {
  const cause = failure instanceof StoreError ? failure.cause : null;
  return cause instanceof Error && /\bREADONLY\b/.test(cause.message);
}

/** A command that was never sent: why, and what the client says of that. */
export function notSent(why: string, cause: Error | null): StoreError {
  return new StoreError(`Redis: not sent: ${why}${because(cause)}`, {
    applied: 'no',
    cause: cause ?? undefined,
  });
}

/** Its client has ended, so that nothing can be sent before its owner does something: the cause says so to whoever would try again. */
export function clientEnded(why: string, lastError: Error | null): StoreError {
  const cause = new ClosedError(why);
  if (lastError !== null) cause.cause = lastError;
  return new StoreError(`Redis: not sent: ${why}${because(lastError)}`, { applied: 'no', cause });
}

/** A command whose time is over. */
export function outOfTime(isSent: boolean, { isReady, lastError }: Link): StoreError {
  if (!isSent) return notSent('no connection within the time limit', lastError);
  const cause = isReady ? null : lastError;
  const text = `Redis did not answer within the time limit${because(cause)}`;
  return new StoreError(text, { applied: 'unknown', cause: cause ?? undefined });
}

const because = (cause: Error | null): string => (cause === null ? '' : ` (${errorText(cause)})`);

/** A node of a Cluster that cannot be reached: nothing was sent to it. */
export function noConnection({ lastError }: Link): Error {
  const text = `CLUSTERDOWN there is no connection to this node${because(lastError)}`;
  return new Error(text, { cause: lastError ?? undefined });
}
