import { StoreError } from '../errors.ts';

/**
 * Errors are recognised by their code, not their class: a store may come from another copy of this package.
 */

const REFUSALS = /^(QUEUE_FULL|MODE_MISMATCH|UNSUPPORTED|INVALID_ARGUMENT|CLOSED)$/;

/** Whether the command may have had an effect. */
export function isUnknown(error: unknown): boolean {
  return isStoreError(error) && error.applied !== 'no';
}

/** Whether the store says for certain that the command had no effect. */
export function isDefinite(error: unknown): boolean {
  return isStoreError(error) ? error.applied === 'no' : REFUSALS.test(codeOf(error));
}

export function isStoreError(error: unknown): error is StoreError {
  return /^(STORE|QUORUM)$/.test(codeOf(error));
}

export function codeOf(error: unknown): string {
  return `${(error as { code?: unknown } | null | undefined)?.code}`;
}

export function unknownOutcome(message: string, cause?: unknown): StoreError {
  return new StoreError(message, { cause, applied: 'unknown' });
}
