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

/** Under the lock, and to the microsecond. */
const NOW = '(extract(epoch FROM clock_timestamp()) * 1000000)::int8::text';

/** Whoever is refused takes part in the companion lock and tries again, so that no release can fall between the two. */
const lock = (suffix: string): string => `CASE
    WHEN ${call(`pg_try_advisory_lock${suffix}`)} THEN 'g' || ${NOW}
    WHEN w IS NULL THEN 'r'
    WHEN NOT pg_try_advisory_lock_shared(w) THEN 'r'
    WHEN ${call(`pg_try_advisory_lock${suffix}`)} THEN 'G' || ${NOW}
    ELSE 'a' END`;

/** The companion lock cannot be had alone while another session takes part in it. To try costs less than to look into `pg_locks`. */
const unlock = (suffix: string): string => `CASE
    WHEN NOT ${call(`pg_advisory_unlock${suffix}`)} THEN 'n'
    WHEN pg_try_advisory_lock(w) THEN CASE WHEN pg_advisory_unlock(w) THEN 'u' ELSE 'u' END
    ELSE 'w' || pg_notify('${CHANNEL}', coalesce(k::text, c || ',' || o))::text END`;

/** Any number of operations, done in order, each with its own answer beside the process that gave it. No two parts of it wait for anything. */
export const STATEMENT = `SELECT pg_backend_pid()::text, CASE op
  WHEN 'lx' THEN ${lock('')}
  WHEN 'ls' THEN ${lock('_shared')}
  WHEN 'ux' THEN ${unlock('')}
  WHEN 'us' THEN ${unlock('_shared')}
  WHEN 'clock' THEN 'g' || ${NOW}
  WHEN 'leave' THEN pg_advisory_unlock_shared(w)::text
  ELSE '' END
FROM unnest($1::text::text[], $2::text::int8[], $3::text::int4[], $4::text::int4[], $5::text::int8[]) AS ops (op, k, c, o, w)`;

/** The five columns of the statement as arrays in PostgreSQL's own spelling. */
export function valuesOf(ops: readonly Op[]): string[] {
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
  const code = `${op.do === 'lock' ? 'l' : 'u'}${op.mode === 'shared' ? 's' : 'x'}`;
  return [code, key, classId, objectId, op.line ? line : null];
}
