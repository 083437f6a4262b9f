import { ClosedError, StoreError } from '../../errors.ts';
import { onAbort } from '../../util/abort.ts';
import { errorText } from '../../util/error-text.ts';

/** gRPC codes with which a member refuses a request without applying any of it. */
const DEFINITE = new Set([3, 5, 7, 8, 9, 11, 12, 16]);
const RESOURCE_EXHAUSTED = 8;

/** `attempts`: how often the request was sent. `cause`: why this call failed, or an earlier one. */
export function asStoreError(what: string, error: unknown, attempts: number, cause: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const message = errorText(error);
  if (attempts === 0 && message.includes('client was already closed')) {
    const closed = new ClosedError('The etcd client has been closed');
    return new StoreError(`${what} was not sent: the client has been closed`, {
      cause: closed,
      applied: 'no',
    });
  }
  const code = Number(/\b(\d{1,2}) [A-Z_]+: /.exec(message)?.[1] ?? Number.NaN);
  // The client fails with the same code when the answer to an applied request is too large for it.
  const isAnswer = code !== RESOURCE_EXHAUSTED || message.includes('etcdserver: ');
  // A failed login, or the circuit breakers of all members. Other errors do not show that nothing
  // was sent: a client may not read the deadline for every attempt.
  const isUnsent = /authentication (?:failed|is not enabled)/.test(message) || isBreakerOpen(error);
  const isDefinite = attempts === 1 ? DEFINITE.has(code) && isAnswer : attempts === 0 && isUnsent;
  const applied = isDefinite ? 'no' : 'unknown';
  return new StoreError(`${what} failed at etcd: ${errorText(cause)}`, { cause, applied });
}

/** `cause`: why the call was given up before its claim was sent. */
export function notSent(cause: unknown): StoreError {
  const message = cause instanceof StoreError ? cause.message : 'The claim was not sent in time';
  return new StoreError(message, { cause, applied: 'no' });
}

/** Rejects as soon as the call is given up, when nothing was sent yet. */
export function unlessAborted<T>(awaited: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(notSent(signal?.reason));
    const stop = onAbort(signal, giveUp);
    if (signal?.aborted === true) giveUp();
    void awaited.then(resolve, reject).finally(stop);
  });
}

export function isBreakerOpen(error: unknown): boolean {
  return (error as { isBrokenCircuitError?: unknown } | null)?.isBrokenCircuitError === true;
}

const says = (error: unknown, text: string): boolean =>
  error instanceof StoreError && error.message.includes(text);

/** The write was refused because its lease had ended. */
export const isLeaseGone = (error: unknown): boolean => says(error, 'requested lease not found');

export const isDenied = (error: unknown): boolean => says(error, 'permission denied');

/**
 * The space quota is used up: etcd refuses every put and every new lease. Keep-alives, reads and
 * deletions work.
 */
export const isFull = (error: unknown): boolean => says(error, 'database space exceeded');
