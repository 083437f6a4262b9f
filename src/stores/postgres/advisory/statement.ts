import { arrayOf, type Row, type Statement } from '../connection.ts';
import type { LockKey } from './lock-key.ts';

export type LockMode = 'exclusive' | 'shared';

/**
 * `lock`: try to lock; when refused, and with `announce`, share the companion lock. `unlock`:
 * unlock, and notify the sessions that share the companion lock. `clock`: read the time, for a claim
 * that joins a shared lock of the session, and to check that the session is alive. `leave`: stop sharing
 * the companion lock.
 */
export type Op =
  | { readonly do: 'lock'; readonly mode: LockMode; readonly key: LockKey; readonly announce: boolean }
  | { readonly do: 'unlock'; readonly mode: LockMode; readonly key: LockKey }
  | { readonly do: 'clock' }
  | { readonly do: 'leave'; readonly key: LockKey };

/** What the statement calls an operation: lock or unlock, exclusive or shared. */
type Code = 'lx' | 'ls' | 'ux' | 'us';

export const CHANNEL = 'holdfast_advisory';

/**
 * Answers to `lock`: `r` held by another; `a` the same, and announced; `g` granted at this time in
 * µs; `G` the same, and announced. Answers to `unlock`: `u` unlocked; `w` the same, and other
 * sessions wait, which were notified; `n` it was not locked.
 */
export function isRefusal(answer: string): boolean {
  return answer === 'r' || answer === 'a';
}

export function isAnnouncement(answer: string): boolean {
  return answer === 'a' || answer.startsWith('G');
}

const call = (name: string): string => `CASE WHEN k IS NULL THEN ${name}(c, o) ELSE ${name}(k) END`;
const callOne = (name: string): string => `${name}($1::int8)`;

/** The time in µs, read while the lock is held. A float has enough digits until the year 2255. */
const NOW = "(date_part('epoch', clock_timestamp()) * 1000000)::int8::text";
/** Puts the id of the server process before the answer: a column of its own would cost more. */
const FROM = "pg_backend_pid() || ' ' || ";

/** A refused claim is announced and then tries again: a release may have come in between. */
const lock = (attempt: string, companion: string): string => `CASE
    WHEN ${attempt} THEN 'g' || ${NOW}
    WHEN ${companion} IS NULL THEN 'r'
    WHEN NOT pg_try_advisory_lock_shared(${companion}) THEN 'r'
    WHEN ${attempt} THEN 'G' || ${NOW}
    ELSE 'a' END`;

/** Trying the companion lock shows whether another session shares it, and costs less than `pg_locks`. */
const unlock = (attempt: string, companion: string, key: string): string => `CASE
    WHEN NOT ${attempt} THEN 'n'
    WHEN pg_try_advisory_lock(${companion})
      THEN CASE WHEN pg_advisory_unlock(${companion}) THEN 'u' ELSE 'u' END
    ELSE 'w' || pg_notify('${CHANNEL}', ${key})::text END`;

const KEY = "coalesce(k::text, c || ',' || o)";

/** Any number of operations, in order, one row with the answer for each. None of them waits. */
const STATEMENT = `SELECT ${FROM}CASE op
  WHEN 'lx' THEN ${lock(call('pg_try_advisory_lock'), 'w')}
  WHEN 'ls' THEN ${lock(call('pg_try_advisory_lock_shared'), 'w')}
  WHEN 'ux' THEN ${unlock(call('pg_advisory_unlock'), 'w', KEY)}
  WHEN 'us' THEN ${unlock(call('pg_advisory_unlock_shared'), 'w', KEY)}
  WHEN 'clock' THEN 'g' || ${NOW}
  WHEN 'leave' THEN pg_advisory_unlock_shared(w)::text END
FROM unnest($1::text::text[], $2::text::int8[], $3::text::int4[], $4::text::int4[], $5::text::int8[])
  AS ops (op, k, c, o, w)`;

/** The statements for a single operation on a 64-bit key: a fifth less work for the server. */
const ONE: Readonly<Record<Code, Statement>> = {
  lx: one('lx', lock(callOne('pg_try_advisory_lock'), '$2::int8')),
  ls: one('ls', lock(callOne('pg_try_advisory_lock_shared'), '$2::int8')),
  ux: one('ux', unlock(callOne('pg_advisory_unlock'), '$2::int8', '$1::int8::text')),
  us: one('us', unlock(callOne('pg_advisory_unlock_shared'), '$2::int8', '$1::int8::text')),
};

/** Made once, because client libraries compare the text with the prepared one. */
function one(code: Code, expression: string): Statement {
  return { name: `holdfast_${code}`, text: `SELECT ${FROM}${expression}` };
}

export function statementOf(ops: readonly Op[]): Statement {
  const [first] = ops;
  if (ops.length === 1 && first !== undefined && 'mode' in first && first.key.key !== null)
    return { ...ONE[codeOf(first)], values: [first.key.key, companionOf(first)] };
  const rows = ops.map(rowOf);
  const values = [0, 1, 2, 3, 4].map((column) => arrayOf(rows.map((row) => row[column] ?? null)));
  return { name: 'holdfast_advisory', text: STATEMENT, values };
}

function rowOf(op: Op): Row {
  if (!('key' in op)) return [op.do, null, null, null, null];
  if (op.do === 'leave') return [op.do, null, null, null, op.key.companion];
  const { key, classId, objectId } = op.key;
  return [codeOf(op), key, classId, objectId, companionOf(op)];
}

function companionOf(op: Extract<Op, { mode: unknown }>): string | null {
  return op.do === 'unlock' || op.announce ? op.key.companion : null;
}

function codeOf({ do: what, mode }: Extract<Op, { mode: unknown }>): Code {
  if (what === 'lock') return mode === 'shared' ? 'ls' : 'lx';
  return mode === 'shared' ? 'us' : 'ux';
}
