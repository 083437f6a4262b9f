import { AcquireTimeoutError, HoldfastError } from '../errors.ts';

/** As in sysexits.h, where it has a fitting code. The exit code of a command is passed on unchanged. */
export const EXIT = {
  ok: 0,
  /** Nothing to evict. */
  nothing: 1,
  /** A check of `doctor` gave a warning, or had no result. */
  warned: 1,
  /** A check of `doctor` failed. */
  failed: 2,
  usage: 64,
  unreachable: 69,
  internal: 70,
  lost: 74,
  notInTime: 75,
  cannotExecute: 126,
  notFound: 127,
} as const;

const BY_CODE: Readonly<Record<string, number>> = {
  ACQUIRE_TIMEOUT: EXIT.notInTime,
  QUEUE_FULL: EXIT.notInTime,
  HOLD_LOST: EXIT.lost,
  STORE: EXIT.unreachable,
  QUORUM: EXIT.unreachable,
  UNSUPPORTED: EXIT.unreachable,
  INVALID_ARGUMENT: EXIT.usage,
  MODE_MISMATCH: EXIT.usage,
};

export function exitCodeOf(error: unknown): number {
  const code = error instanceof HoldfastError ? error.code : (error as { code?: unknown } | null)?.code;
  return (typeof code === 'string' ? BY_CODE[code] : undefined) ?? EXIT.internal;
}

/** The message of an error for people. */
export function describeFailure(error: unknown): string {
  if (error instanceof AcquireTimeoutError && error.position !== null)
    return `${error.message} (position ${error.position} in the queue)`;
  return error instanceof Error ? error.message : String(error);
}

/** Wrong arguments. */
export class UsageError extends Error {
  readonly code = 'INVALID_ARGUMENT';
}
