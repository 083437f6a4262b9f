import { ClosedError, StoreError } from '../../errors.ts';
import { errorText } from '../../util/error-text.ts';
import type { RedisConnection } from './connection.ts';

/** With these errors the server says that it has not executed the command. */
const NOT_EXECUTED = [
  ...['NOSCRIPT', 'OOM', 'WRONGTYPE', 'READONLY', 'LOADING', 'BUSY', 'MISCONF', 'NOREPLICAS'],
  ...['MASTERDOWN', 'CLUSTERDOWN', 'TRYAGAIN', 'MOVED', 'ASK', 'CROSSSLOT'],
  ...['NOAUTH', 'NOPERM', 'WRONGPASS', 'DENIED', 'UNKILLABLE'],
];
const CODE = new RegExp(`\\b(${NOT_EXECUTED.join('|')})\\b`);

const HINTS: Readonly<Record<string, string>> = {
  WRONGTYPE: 'a key of this lock is in use for something else',
  OOM: 'Redis is out of memory',
  READONLY: 'this Redis is a replica',
  TRYAGAIN: 'the slot of this lock is being moved to another node',
  NOPERM: 'this Redis user may not do that: docs/stores/redis.md lists what is needed',
};

/** The outcome is unknown unless the server says that it has not executed the command. */
export function failureOf(error: unknown): StoreError {
  const message = errorText(error);
  const code = CODE.exec(message)?.[1];
  const hint = code === undefined ? undefined : HINTS[code];
  const text = `Redis: ${message}${hint === undefined ? '' : ` (${hint})`}`;
  return new StoreError(text, { cause: error, applied: code === undefined ? 'unknown' : 'no' });
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/** The server is a replica, so another one is the master. */
export function isFromReplica(error: unknown): boolean {
  return error instanceof Error && /\bREADONLY\b/.test(error.message);
}

/** A command that was not sent. `lastError`: that of the client. */
export function notSent(why: string, lastError: Error | null, cause = lastError): StoreError {
  const text = `Redis: not sent: ${why}${because(lastError)}`;
  return new StoreError(text, { applied: 'no', cause: cause ?? undefined });
}

/** The client has ended. The `ClosedError` as the cause tells the core not to try again. */
export function clientEnded(why: string, lastError: Error | null): StoreError {
  const closed = new ClosedError(why);
  if (lastError !== null) closed.cause = lastError;
  return notSent(why, lastError, closed);
}

export function outOfTime(isSent: boolean, { isReady, lastError }: RedisConnection): StoreError {
  if (!isSent) return notSent('no connection within the time limit', lastError);
  const cause = isReady ? null : lastError;
  const text = `Redis did not answer within the time limit${because(cause)}`;
  return new StoreError(text, { applied: 'unknown', cause: cause ?? undefined });
}

const because = (cause: Error | null): string => (cause === null ? '' : ` (${errorText(cause)})`);

/** A node of a Cluster that cannot be reached. No command was sent to it. */
export function noConnection({ lastError }: Pick<RedisConnection, 'lastError'>): Error {
  const text = `CLUSTERDOWN there is no connection to this node${because(lastError)}`;
  return new Error(text, { cause: lastError ?? undefined });
}
