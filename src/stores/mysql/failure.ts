import { StoreError } from '../../errors.ts';
import { failuresBy } from '../shared/server-failure.ts';

/**
 * Errors that the server itself reports, and that do not say whether the statement was committed: it
 * shuts down, it failed in the commit, the session was killed or was idle for too long.
 */
const ENDED = new Set([1053, 1105, 1180, 1927, 3169, 4031]);
/** Errors of a client: a proxy reports by them that it has lost the server. */
const isClientError = (code: number): boolean => code >= 2_000 && code < 3_000;

/** Packet too large, data that does not fit: one operation caused it, and nothing was done. */
const ONE_FAILED = new Set([1153, 1264, 1366, 1406, 3141]);
/** Access denied to a database, to a table or to a column; no database is chosen. */
const DENIED = new Set([1044, 1046, 1142, 1143, 1227]);
const MISSING = new Set([1049, 1146]);
/** The server is set to be read only: a replica, or the old primary after a failover. */
const READ_ONLY = new Set([1290, 1792, 1836]);
/**
 * Deadlock, snapshot too old, a prepared statement that the server has forgotten, a number out of range
 * (see `WRITE`): nothing was done, and the next try may succeed.
 */
const TRY_AGAIN = new Set([1213, 1020, 1615, 1690]);

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
  kinds: {
    end: { has: (code) => ENDED.has(code) || isClientError(code) },
    one: ONE_FAILED,
    tables: MISSING,
    server: READ_ONLY,
    again: TRY_AGAIN,
    denied: DENIED,
  },
  hints: HINTS,
});
