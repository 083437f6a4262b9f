import { type HoldfastError, StoreError } from '../../errors.ts';

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
  const message = error instanceof Error ? error.message : String(error);
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

/** A command that was never sent. */
export function notSent(why: string): HoldfastError {
  return new StoreError(`Redis: not sent: ${why}`, { applied: 'no' });
}
