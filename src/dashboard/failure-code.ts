import { codeOf } from '../util/error-code.ts';

/**
 * What an answer says of a failure of the store: its code alone. The message of an error may contain
 * an address of the store, and the messages of client libraries may contain more. `null` for an error
 * that is not the store's.
 */
export function failureCode(error: unknown): string | null {
  const code = codeOf(error);
  return /^(STORE|QUORUM|CLOSED|UNSUPPORTED)$/.test(code) ? code : null;
}
