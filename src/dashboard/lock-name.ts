import { checkName } from '../checks.ts';
import { badRequest } from './answers.ts';

/** The name of a lock in a request. Throws `RefusedError` for what can be no name. */
export function nameIn(value: unknown): string {
  try {
    return checkName(value as string);
  } catch {
    // A control character would select the names of another use.
    throw badRequest('name must be 1 to 512 bytes without control characters.');
  }
}
