import type { Statement } from '../wire.ts';
import type { LockKey } from './lock-key.ts';

/** `exclusive`, `shared`: try to lock. `clock`: the time, for one who joins a shared lock that we have. `leave`: our part in the companion lock. `ping`: are we still there? */
export type Op =
  | {
      readonly do: 'lock' | 'unlock';
      readonly mode: 'exclusive' | 'shared';
      readonly key: LockKey;
      readonly line: boolean;
    }
  | { readonly do: 'clock' | 'ping' }
  | { readonly do: 'leave'; readonly key: LockKey };

export const CHANNEL = 'holdfast_advisory';

/** `r`: held by another. `a`: the same, and we are seen to wait. `g`: granted at this time in µs. `G`: both. */
export type LockAnswer = 'r' | 'a' | `${'g' | 'G'}${bigint}`;
/** `u`: unlocked. `w`: and others wait, who have been told. `n`: it was not locked. */
export type UnlockAnswer = 'u' | 'w' | 'n';

const call = (name: string): string => `CASE WHEN k IS NULL THEN ${name}(c, o) ELSE ${name}(k) END`;
const callOne = (name: string): string => `${name}($1::text::int8)`;

/** Under the lock, and to the microsecond, which 53 bits are enough for until the year 2255. */
const NOW = "(date_part('epoch', clock_timestamp()) * 1000000)::int8::text";
/** In front of every answer: the process that gives it. In one column, since each column costs the client as much as the rest. */
const FROM = "pg_backend_pid() || ' ' || ";

/** Whoever is refused takes part in the companion lock and tries again, so that no release can fall between the two. */
const lock = (attempt: string, line: string): string => `CASE
    WHEN ${attempt} THEN 'g' || ${NOW}
    WHEN ${line} IS NULL THEN 'r'
    WHEN NOT pg_try_advisory_lock_shared(${line}) THEN 'r'
    WHEN ${attempt} THEN 'G' || ${NOW}
    ELSE 'a' END`;

/** The companion lock cannot be had alone while another session takes part in it. To try costs less than to look into `pg_locks`. */
const unlock = (attempt: string, line: string, key: string): string => `CASE
    WHEN NOT ${attempt} THEN 'n'
    WHEN pg_try_advisory_lock(${line}) THEN CASE WHEN pg_advisory_unlock(${line}) THEN 'u' ELSE 'u' END
    ELSE 'w' || pg_notify('${CHANNEL}', ${key})::text END`;

const KEY = "coalesce(k::text, c || ',' || o)";

/** Any number of operations, done in order, each with its own answer beside the process that gave it. No part of it waits for anything. */
const STATEMENT = `SELECT ${FROM}CASE op
  WHEN 'lx' THEN ${lock(call('pg_try_advisory_lock'), 'w')}
  WHEN 'ls' THEN ${lock(call('pg_try_advisory_lock_shared'), 'w')}
  WHEN 'ux' THEN ${unlock(call('pg_advisory_unlock'), 'w', KEY)}
  WHEN 'us' THEN ${unlock(call('pg_advisory_unlock_shared'), 'w', KEY)}
  WHEN 'clock' THEN 'g' || ${NOW}
  WHEN 'leave' THEN pg_advisory_unlock_shared(w)::text
  ELSE '' END
FROM unnest($1::text::text[], $2::text::int8[], $3::text::int4[], $4::text::int4[], $5::text::int8[]) AS ops (op, k, c, o, w)`;

/** The same for one operation on a key of 64 bits, which is what most calls come to: a fifth less work for the server. */
const ONE: Readonly<Record<string, { readonly name: string; readonly text: string }>> = {
  lx: one('lx', lock(callOne('pg_try_advisory_lock'), '$2::text::int8')),
  ls: one('ls', lock(callOne('pg_try_advisory_lock_shared'), '$2::text::int8')),
  ux: one('ux', unlock(callOne('pg_advisory_unlock'), '$2::text::int8', '$1::text')),
  us: one('us', unlock(callOne('pg_advisory_unlock_shared'), '$2::text::int8', '$1::text')),
};

/** Its text made once: client libraries compare it with what was prepared by that name. */
function one(code: string, expression: string): { readonly name: string; readonly text: string } {
  return { name: `holdfast_${code}`, text: `SELECT ${FROM}${expression}` };
}

export function statementOf(ops: readonly Op[]): Statement {
  const [first] = ops;
  if (ops.length === 1 && first !== undefined && 'mode' in first && first.key.key !== null) {
    const values = [first.key.key, first.line ? first.key.line : null];
    const known = ONE[codeOf(first)];
    if (known !== undefined) return { name: known.name, text: known.text, values };
  }
  return { name: 'holdfast_advisory', text: STATEMENT, values: valuesOf(ops) };
}

/** The five columns of the statement as arrays in PostgreSQL's own spelling. */
function valuesOf(ops: readonly Op[]): string[] {
  const columns: string[][] = [[], [], [], [], []];
  for (const op of ops) {
    for (const [n, value] of row(op).entries()) columns[n]?.push(value ?? 'NULL');
  }
  return columns.map((column) => `{${column.join()}}`);
}

function row(op: Op): readonly (string | null)[] {
  if (!('key' in op)) return [op.do, null, null, null, null];
  const { key, classId, objectId, line } = op.key;
  if (op.do === 'leave') return [op.do, null, null, null, line];
  return [codeOf(op), key, classId, objectId, op.line ? line : null];
}

function codeOf({ do: what, mode }: Extract<Op, { mode: unknown }>): string {
  if (what === 'lock') return mode === 'shared' ? 'ls' : 'lx';
  return mode === 'shared' ? 'us' : 'ux';
}
