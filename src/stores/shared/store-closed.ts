import { ClosedError } from '../../errors.ts';

/** The error of every call after `close`. */
export function storeClosed(): ClosedError {
  return new ClosedError('This store is closed');
}
