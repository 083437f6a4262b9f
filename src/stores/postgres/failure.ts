import type { StoreError } from '../../errors.ts';
import { failuresBy } from '../shared/server-failure.ts';

/**
 * `AB123`: an error that the server reported. A code without a digit, such as EPIPE, comes from the
 * operating system and does not tell what the server did.
 */
const SQLSTATE = /^(?=.*\d)[0-9A-Z]{5}$/;
/** The schema, a table or a function does not exist. */
export const MISSING: ReadonlySet<string> = new Set(['3F000', '42P01', '42883']);

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
    // The session or the server ended, perhaps after the commit.
    end: { has: (state) => /^(57P0[124]|57P05|25P0[34]|08|XX)/.test(state) },
    // Data, a constraint or a limit: one operation has failed, and the others were undone with it.
    one: { has: (state) => /^(22|23|54)/.test(state) },
    tables: MISSING,
    // A standby, or the old primary after a failover.
    server: new Set(['25006']),
    // Serialization failure and deadlock: nothing was done, and the next attempt may succeed.
    again: new Set(['40001', '40P01']),
    denied: new Set(['42501']),
  },
  hints: {
    '25006': 'this server is a standby, or is set to be read only',
    '42501': 'docs/stores/postgres.md lists the privileges that this user needs',
    '53300': 'PostgreSQL has no connection left',
  },
});
export const { failureOf, notBegun, notSent } = failures;

/** A caller has given up before its statement was sent. */
export function gaveUp(): StoreError {
  return notSent('the caller gave up');
}
