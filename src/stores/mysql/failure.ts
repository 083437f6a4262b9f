import { StoreError } from '../../errors.ts';
import { failuresBy } from '../shared/server-failure.ts';

const ENDED = new Set([1053, 1105, 1180, 1927, 3169, 4031]);

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
    // Errors that do not say whether the statement was committed: the server shuts down, it failed in the
    // commit, the session was killed or was idle for too long. And all errors of a client: a proxy
    // reports by them that it has lost the server.
    end: { has: (code) => (code >= 2_000 && code < 3_000) || ENDED.has(code) },
    // Packet too large, data that does not fit: one operation caused it, and nothing was done.
    one: new Set([1153, 1264, 1366, 1406, 3141]),
    // No such database, no such table.
    tables: new Set([1049, 1146]),
    // The server is set to be read only: a replica, or the old primary after a failover.
    server: new Set([1290, 1792, 1836]),
    // Deadlock, snapshot too old, a prepared statement that the server has forgotten, a number out of
    // range (see `WRITE`): nothing was done, and the next try may succeed.
    again: new Set([1213, 1020, 1615, 1690]),
    // Access denied to a database, to a table or to a column; no database is chosen.
    denied: new Set([1044, 1046, 1142, 1143, 1227]),
  },
  hints: {
    1040: 'MySQL has no connection left',
    1044: 'docs/stores/mysql.md lists what the user needs',
    1142: 'docs/stores/mysql.md lists what the user needs',
    1290: 'this server is a replica, or is set to be read only',
    1690: 'others changed the lock each time',
    1836: 'this server is a replica, or is set to be read only',
  },
});
