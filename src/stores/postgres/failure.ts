import type { StoreError } from '../../errors.ts';
import { failuresBy } from '../shared/server-failure.ts';

/**
 * `AB123`: an error that the server reported. A code without a digit, such as EPIPE, comes from the
 * operating system and does not tell what the server did.
 */
const SQLSTATE = /^(?=.*\d)[0-9A-Z]{5}$/;
/** The session or the server ended, perhaps after the commit. */
const ENDED = /^(57P0[124]|57P05|25P0[34]|08|XX)/;

/** Data, a constraint or a limit: one operation has failed, and the others were undone with it. */
const ONE_FAILED = /^(22|23|54)/;
/** The schema, a table or a function does not exist. */
export const MISSING: ReadonlySet<string> = new Set(['3F000', '42P01', '42883']);
/** Serialization failure and deadlock: nothing was done, and the next attempt may succeed. */
const TRY_AGAIN = new Set(['40001', '40P01']);
const DENIED = new Set(['42501']);
/** A standby, or the old primary after a failover. */
const READ_ONLY = new Set(['25006']);

const HINTS: Readonly<Record<string, string>> = {
  '25006': 'this server is a standby, or is set to be read only',
  '42501': 'docs/stores/postgres.md lists the privileges that this user needs',
  '53300': 'PostgreSQL has no connection left',
};

function sqlStateOf(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && SQLSTATE.test(code) ? code : null;
}

/** The SQLSTATE of an error or of its causes: some query builders wrap the library's error. */
export function stateIn(error: unknown): string | null {
  let each = error;
  for (let depth = 0; depth < 4; depth += 1) {
    const state = sqlStateOf(each);
    if (state !== null) return state;
    each = (each as { cause?: unknown } | null)?.cause;
  }
  return null;
}

export const failures = failuresBy({
  label: 'PostgreSQL',
  codeOf: sqlStateOf,
  kinds: {
    end: { has: (state) => ENDED.test(state) },
    one: { has: (state) => ONE_FAILED.test(state) },
    tables: MISSING,
    server: READ_ONLY,
    again: TRY_AGAIN,
    denied: DENIED,
  },
  hints: HINTS,
});
export const { failureOf, notBegun, notSent } = failures;

/** A caller has given up before its statement was sent. */
export function gaveUp(): StoreError {
  return notSent('the time was over');
}
