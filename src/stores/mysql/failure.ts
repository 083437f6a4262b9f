import { StoreError } from '../../errors.ts';
import { failuresBy } from '../shared/server-failure.ts';

/**
 * Errors that the server itself reports, and that do not say whether the statement was committed: it
 * shuts down, it failed in the commit, the session was killed or was idle for too long.
 */
const ENDED = new Set([1053, 1105, 1180, 1927, 3169, 4031]);

const HINTS: Readonly<Record<number, string>> = {
  1040: 'MySQL has no connection left',
  1044: 'docs/stores/mysql.md lists what the user needs',
  1142: 'docs/stores/mysql.md lists what the user needs',
  1290: 'this server is a replica, or is set to be read only',
  1836: 'this server is a replica, or is set to be read only',
};

/** The number of an error that the server itself reported; `null` for any other error. */
export function errorNumberOf(error: unknown): number | null {
  const cause = error instanceof StoreError ? error.cause : error;
  const { errno, sqlState } = (cause ?? {}) as { errno?: unknown; sqlState?: unknown };
  return typeof errno === 'number' && typeof sqlState === 'string' && errno > 0 ? errno : null;
}

export const failures = failuresBy({
  label: 'MySQL',
  codeOf: errorNumberOf,
  isEnd: (number) => ENDED.has(number),
  hints: HINTS,
});
