import { AcquireTimeoutError, HoldfastError } from '../errors.ts';

/** After sysexits.h, where it has a fitting one. A command's own code is passed through as it is. */
export const EXIT = {
  ok: 0,
  /** Nothing to evict. */
  nothing: 1,
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
  LINE_FULL: EXIT.notInTime,
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

/** What to tell a person. */
export function describeFailure(error: unknown): string {
  if (error instanceof AcquireTimeoutError && error.position !== null)
    return `${error.message} (place ${error.position} in line)`;
  return error instanceof Error ? error.message : String(error);
}

/** Something that was asked for in a way that cannot be done. */
export class UsageError extends Error {
  readonly code = 'INVALID_ARGUMENT';
}
