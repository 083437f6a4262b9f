import { ClosedError } from '../../errors.ts';

export function storeClosed(): ClosedError {
  return new ClosedError('This store is closed');
}
